package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/model/usage"
)

// leaveUsage is the script command "spend CONFIG": it leaves what calls have used in the configuration's store, and keeps that open to
// the end of the script as a host would.
func leaveUsage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: spend CONFIG")
	}
	ctx, s := context.Background(), openStoreOf(ts, args[0])
	ts.Defer(func() { ts.Check(s.Close()) })
	ann := usage.Row{
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Day: "2026-03-01", Sender: "irc:ann", Agent: "main", Tier: "default", Provider: "anthropic",
		Model: "m", Attempt: 1, Input: 1000, Output: 50, CacheRead: 8000, CacheWrite: 500, Cost: 12_345_678,
	}
	bob := ann
	bob.At, bob.Day, bob.Sender, bob.Failure, bob.Cost = ann.At.AddDate(0, 0, 1), "2026-03-02", "irc:b\x1bob", "stream_cut", 5_000_000_000
	ts.Check(s.AddUsage(ctx, []usage.Row{ann, bob, ann}))
}
