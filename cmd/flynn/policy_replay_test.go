package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// record is the script command "record CONFIG N": it asks the configured policies about N tool calls, by turns of shell.run and
// notes.read, and writes the decisions to the configuration's store, which it keeps open to the end of the script as a host would.
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record CONFIG N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	c, err := config.Load(ts.MkAbs(args[0]), func(key string) string { return map[string]string{"HOME": ts.Getenv("HOME")}[key] })
	ts.Check(err)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, c.Store.Dir)
	ts.Check(err)
	ts.Defer(func() { ts.Check(s.Close()) })
	engine, err := policy.New(ctx, policy.Config{Sources: configured.Sources(c, slog.New(slog.DiscardHandler))})
	ts.Check(err)
	defer engine.Close()
	set := engine.Pin()
	defer set.Release()
	for k := range n {
		f := policy.ToolFacts{Agent: "main", Session: "s", Tool: "notes.read", Effect: "read", Args: json.RawMessage(`{"n":1}`)}
		if k%2 == 0 {
			f.Tool = "shell.run"
		}
		f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "alice", "hello"
		f.Role, f.Door, f.Now, f.Seed = "guest", "channel", time.Now(), int64(k)
		_, records := set.Tool(ctx, f)
		ts.Check(s.AddDecisions(ctx, decisionlog.Rows(time.Now(), records)))
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"": {}, "7d": now.AddDate(0, 0, -7), "90m": now.Add(-90 * time.Minute), "2026-03-01": time.Date(2026, 3, 1, 0, 0, 0, 0, time.Local),
		"2026-03-01 12:30:00": time.Date(2026, 3, 1, 12, 30, 0, 0, time.Local), "2026-03-01T12:00:00Z": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	} {
		if got, err := when("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "d", "-1d", "99999999d", "2026-13-01"} {
		if got, err := when("since", text, now); exitCode(err) != exitUsage {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
