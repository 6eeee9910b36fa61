// Package kind defines a kind of plugin: what host/plugin has to know about it to start, check and supervise its processes, which it does in
// the same way for every kind.
//
// Start with Kind. Each kind has a folder below this one, channel, tools and sandbox, with its table of plugin.toml and the client that its users
// make from a Conn. A new kind is such a folder and an entry in host/plugin/kinds.go. The package starts nothing and calls nothing.
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
	// Relays reports whether a process only relays messages, for which one thread at a time is enough.
	Relays() bool
	// Options returns a pointer to the defaults of the kind's table in plugin.toml, into which the table is decoded; nil if it has no table.
	Options() Options
}

// Options is the table of a kind in plugin.toml.
type Options interface {
	// Check calls report for every invalid key.
	Check(report func(format string, args ...any))
	// Differences describes the differences between the table and the description of a process.
	Differences(d *pluginv1.DescribeResponse) []string
	// Alone reports whether two processes of one instance must not run at the same time.
	Alone() bool
	// Shared reports whether several hosts may each run a process of one instance at the same time.
	Shared() bool
}

// Lease is the right of this host to use an instance that one host at a time may use. Its methods answer at once, from any goroutine.
type Lease = interface {
	// Left is how long the host surely has it from now on, by a monotonic clock; 0 without it.
	Left() time.Duration
	// Sending is how long the host may surely have a process that sends and does not receive: at least Left. It is above 0 before that when
	// the process of a previous host may still receive.
	Sending() time.Duration
	// Epoch rises whenever the instance goes from one host to another.
	Epoch() int64
}

// Apart is implemented by the Options of a kind whose instances can send before they may receive.
type Apart interface {
	// Apart reports whether an instance with those settings can.
	Apart(settings map[string]any) bool
}

// Conn is the connection to a ready process of an instance, for the duration of one Handler.Serve. It can be used by many goroutines.
type Conn struct {
	grpc.ClientConnInterface // with the host's bounds in both directions

	Instance string
	// Release names what runs, by its contents: another release of the plugin, and a changed program of a development folder, have another.
	Release  string
	Settings map[string]any
	Options  Options // of the instance's kind
	Lease    Lease   // nil: the instance is this host's, without an end
	Log      *slog.Logger
	Gone     context.Context // ends when the process is gone or being killed
	Draining context.Context // ends when the instance has to stop: streams of events end, calls continue
}

// MaxCall bounds a call without a deadline of its own.
const MaxCall = 60 * time.Second

// Effect derives the context of a call that may have an effect. Cancelling ctx does not cancel the call, because then its outcome would be
// unknown; the call ends at the deadline of ctx, after MaxCall without one, or with the process.
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
