package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/policy/journal"
)

// leaveShadows is the script command "shadows CONFIG": it leaves in the configuration's store what a shadow policy does, and keeps that
// open to the end of the script as a host would.
func leaveShadows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shadows CONFIG")
	}
	ctx, s := context.Background(), openStoreOf(ts, args[0])
	ts.Defer(func() { ts.Check(s.Close()) })
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	count := journal.ShadowCount{Day: noon, Policy: "next", Digest: "d", File: "0123456789abcdef", Against: "guard", Outcome: "same", Count: 98}
	dropped, changed := count, count
	dropped.Outcome, dropped.Count = "dropped", 5
	changed.Outcome, changed.Count = "changed", 2
	d := journal.ShadowDifference{
		At: noon, Policy: "next", Digest: "d", File: count.File, Against: "guard", Kind: "tool", Was: "deny", WasWhy: "rule 1", Is: "ask", IsWhy: "rule 2",
		Channel: "irc", Sender: "irc:alice", Tool: "shell.run",
	}
	bob := d
	bob.Sender = "irc:bob"
	ts.Check(s.AddShadow(ctx, []journal.ShadowDifference{d, bob}, []journal.ShadowCount{count, dropped, changed}))
}
