// Package kind says what a kind of plugin is: what host/plugin has to know of one to start, check and supervise its processes, which it does
// alike for every kind.
//
// Start with Kind. Each kind has a folder below this one, channel and tools, with the table of plugin.toml that is its own and the client that
// its users make of a Conn. A further kind is such a folder and a name in host/plugin/kinds.go. The package starts nothing and calls nothing.
package kind

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Name is the name of a kind in plugin.toml.
type Name string

// Kind is one kind of plugin.
type Kind interface {
	// Name is also the name of the kind's own table in plugin.toml.
	Name() Name
	// Section is the table of flynn.toml that holds the instances.
	Section() string
	// Wire is the kind in Describe and Configure.
	Wire() pluginv1.Kind
	// Relays reports whether a process only passes on what others say: one thread at a time is then enough for it.
	Relays() bool
	// Options returns a pointer to what plugin.toml says where it has no table of the kind. The table is decoded into it.
	Options() Options
}

// Options is what a plugin.toml says of one of its kinds.
type Options interface {
	// Check calls report with every key that makes no sense.
	Check(report func(format string, args ...any))
	// Differences says in which respects a process describes itself otherwise.
	Differences(d *pluginv1.DescribeResponse) []string
	// Alone reports whether two processes of one instance must not be at work at a time.
	Alone() bool
}

// Conn is a ready process of an instance. It is good for the length of one Handler.Serve. It can be used by many goroutines.
type Conn struct {
	grpc.ClientConnInterface // with the host's bounds in both directions

	Instance string
	Settings map[string]any
	Options  Options // of the instance's kind
	Log      *slog.Logger
	Gone     context.Context // ends when the process is gone or being killed
	Draining context.Context // ends when the instance is to stop: streams of events end, calls go on
}

// MaxCall bounds a call without a deadline of its own.
const MaxCall = 60 * time.Second

// Effect derives the context of a call that may have an effect. Its end does not cut the call off, since nobody could say then whether the
// call was carried out; the call ends at its deadline, after MaxCall, or with the process.
func (c *Conn) Effect(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(MaxCall)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	release := context.AfterFunc(c.Gone, cancel)
	return ctx, func() { release(); cancel() }
}

// Bounds on texts of a plugin, in bytes.
const (
	MaxDetail = 1 << 10 // a sentence, such as an error
	MaxName   = 256
)

// Text makes a text of a plugin valid UTF-8 without NUL and at most limit bytes, cut between characters.
func Text(text string, limit int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	return cut.Head(text, limit)
}
