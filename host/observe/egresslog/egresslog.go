// Package egresslog records the attempts of programs in sandboxes to reach the network: the decisions of the proxy of a sandbox whose
// network is an allowlist, and the calls of bridged commands.
//
// Start with New. No caller waits for the log: records that the store cannot take in time are dropped, counted and reported.
package egresslog

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/batch"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/egress"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Config says where records go.
type Config struct {
	Store  egress.Records
	Log    *slog.Logger
	Events *event.Bus // gets Decided and Lost; it may be nil
}

// Decided is published for each request of a program: Kind is "proxy" or "bridge".
type Decided struct {
	Kind    string
	Allowed bool
}

// Lost is published when records could not be kept.
type Lost struct{ Records int }

// Log records the decisions of all sandboxes.
type Log struct {
	writer *batch.Writer[egress.Record]
	events *event.Bus
}

// maxText bounds each text of a record.
const maxText = 1 << 10

// New makes a log; its records are written while Run runs.
func New(c Config) *Log {
	return &Log{events: c.Events, writer: batch.New(batch.Config[egress.Record]{
		Name: "the egress log", Queue: 4096, Batch: 512, Pause: 200 * time.Millisecond, Log: c.Log,
		Write: c.Store.AddEgress, Lost: func(lost []egress.Record) { c.Events.Publish(Lost{len(lost)}) },
	})}
}

// Run writes records until ctx ends, and then those that are left.
func (l *Log) Run(ctx context.Context) error { return l.writer.Run(ctx) }

// Decided records a decision of a proxy.
func (l *Log) Decided(session message.WorkspaceKey, d egress.Decision) {
	l.events.Publish(Decided{"proxy", d.Allowed})
	l.writer.Put(proxyRecord(session, d))
}

// Ended records how much an allowed request has carried.
func (l *Log) Ended(session message.WorkspaceKey, d egress.Decision) {
	l.writer.Put(proxyRecord(session, d))
}

// Bridged records a call of a bridged command.
func (l *Log) Bridged(session message.WorkspaceKey, d bridge.Decision) {
	l.events.Publish(Decided{"bridge", d.Allowed})
	l.writer.Put(bridgeRecord(session, d))
}

// BridgeEnded records how much a call of a bridged command has carried.
func (l *Log) BridgeEnded(session message.WorkspaceKey, d bridge.Decision) {
	l.writer.Put(bridgeRecord(session, d))
}

func proxyRecord(session message.WorkspaceKey, d egress.Decision) egress.Record {
	r := egress.Record{
		ID: d.ID, At: d.Time, Kind: "proxy", Session: session, Agent: session.Agent(), Method: d.Method, Host: clip(d.Host), Port: d.Port,
		Allowed: d.Allowed, Reason: clip(d.Reason), Credential: d.Credential, Up: d.Up, Down: d.Down, Ended: d.Ended,
	}
	for _, a := range d.Addrs {
		r.Addrs = append(r.Addrs, a.String())
	}
	return r
}

func bridgeRecord(session message.WorkspaceKey, d bridge.Decision) egress.Record {
	return egress.Record{
		ID: d.ID, At: d.Time, Kind: "bridge", Session: session, Agent: session.Agent(), Method: clip(d.Name),
		Host: clip(strings.Join(d.Argv, " ")), Allowed: d.Allowed, Reason: clip(d.Reason), Up: d.Up, Down: d.Down, Ended: d.Ended,
	}
}

func clip(s string) string { return strings.ToValidUTF8(cut.Head(s, maxText), "\uFFFD") }
