package egresslog

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// kept is a store in memory.
type kept struct {
	egress.Records
	records []egress.Record
}

func (k *kept) AddEgress(_ context.Context, rs []egress.Record) error {
	k.records = append(k.records, rs...)
	return nil
}

func TestRecords(t *testing.T) {
	k, counted := &kept{}, map[string]int{}
	l := New(Config{Store: k, Log: slog.New(slog.DiscardHandler), Events: event.Only(func(e Decided) {
		if e.Allowed {
			counted[e.Kind]++
		} else {
			counted[e.Kind+" refused"]++
		}
	})})
	const session = "irc:#x:helper"
	l.Decided(session, egress.Decision{ID: "1", Host: "example.org", Port: 443, Addrs: []netip.Addr{netip.MustParseAddr("93.184.216.34")}, Allowed: true})
	l.Decided(session, egress.Decision{ID: "2", Reason: strings.Repeat("x", maxText-1) + "é"})
	l.Ended(session, egress.Decision{ID: "1", Up: 1, Down: 2})
	l.Bridged(session, bridge.Decision{ID: "3", Name: "git", Argv: []string{"git", "push"}, Allowed: true})
	l.BridgeEnded(session, bridge.Decision{ID: "3", Name: "git", Up: 7})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil || len(k.records) != 5 {
		t.Fatalf("%d records: %v", len(k.records), err)
	}
	if r := k.records[0]; r.Kind != "proxy" || r.Agent != "helper" || !r.Allowed || r.Addrs[0] != "93.184.216.34" || r.Port != 443 {
		t.Errorf("%+v", r)
	}
	if r := k.records[1]; r.Allowed || r.Reason != strings.Repeat("x", maxText-1) {
		t.Errorf("a reason of %d bytes ends in %q", len(r.Reason), r.Reason[max(0, len(r.Reason)-5):])
	}
	if r := k.records[3]; r.Kind != "bridge" || r.Method != "git" || r.Host != "git push" {
		t.Errorf("%+v", r)
	}
	// A connection that ends was counted when it was decided.
	if counted["proxy"] != 1 || counted["proxy refused"] != 1 || counted["bridge"] != 1 || len(counted) != 3 {
		t.Errorf("counted: %v", counted)
	}
}
