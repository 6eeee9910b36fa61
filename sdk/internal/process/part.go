// Package process is the half of a plugin that is the same for every kind: the handshake with the host, configuration, status,
// logging, an orderly end, and the end of the process when its host is gone.
//
// A Part is what a kind adds; sdk/channel and sdk/tool make one of what an author wrote. Main runs parts as a process, Serve on a
// listener of a test.
package process

import (
	"context"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Part is one kind's share of a plugin.
type Part struct {
	// Kind is what it is.
	Kind pluginv1.Kind
	// Describe adds what the part is to the plugin's account of itself.
	Describe func(*pluginv1.DescribeResponse)
	// Register adds its service, called Service. Calls of it come only between Configure and the end.
	Register func(g *grpc.Server, s *Server)
	Service  string
	// Endless are its streams, by full method name, that go on until the server stops. An orderly end waits for all other calls.
	Endless []string
	// Configure takes the settings, which every part gets whole.
	Configure func(ctx context.Context, c Config) error
	// Run works until ctx ends, where the instance is used as this kind. A return before that is a failure. It may be nil.
	Run func(ctx context.Context, b *Board) error
	// End refuses what waits for the host; it may be nil.
	End func()
}

// UTF8 keeps a platform's text from breaking the whole frame: proto3 strings must be valid UTF-8.
func UTF8(s string) string { return utf8(s) }
