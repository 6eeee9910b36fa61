// Package process is the part of a plugin that is the same for every kind: the handshake with the host, configuration, status, logging,
// shutdown, and the end of the process when its host is gone.
//
// A Part is what a kind adds; sdk/channel and sdk/tool make one from an author's code. Main runs parts as a process, Serve on a listener of
// a test.
package process

import (
	"context"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Part is one kind's share of a plugin.
type Part struct {
	// Kind is the kind of plugin.
	Kind pluginv1.Kind
	// Describe adds the part to the plugin's description.
	Describe func(*pluginv1.DescribeResponse)
	// Register registers its service, named Service, which is called only between Configure and the end.
	Register func(g *grpc.Server, s *Server)
	Service  string
	// Endless are its streams, by full method name, that continue until the server stops. Shutdown waits for all other calls.
	Endless []string
	// Configure receives the settings; every part gets all of them.
	Configure func(ctx context.Context, c Config) error
	// Begin is called with the request before Run; it may be nil.
	Begin func(*pluginv1.ConfigureRequest)
	// Run works until ctx ends, if the instance is used as this kind. An earlier return is a failure. It may be nil.
	Run func(ctx context.Context, b *Board) error
	// End releases what waits for the host; it may be nil.
	End func()
}

// UTF8 makes text of a platform valid UTF-8, because an invalid string would make the whole proto3 message invalid.
func UTF8(s string) string { return utf8(s) }
