package main

import (
	"context"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/agent/memory"
)

// leaveNotes is the script command "notes CONFIG": it leaves what a host would remember.
func leaveNotes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: notes CONFIG")
	}
	ctx, s := context.Background(), openStoreOf(ts, args[0])
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	for i, n := range []memory.Note{
		{Agent: "main", Person: "irc:ann", Key: "diet", Text: "Ann eats no meat", By: "irc:ann", Turn: "t1", Labels: []string{"memory:extracted", "web:x.example"}},
		{Agent: "main", Person: "irc:bob", Key: "diet", Text: "Bob eats meat \x1b[31mraw\n" + strings.Repeat("and ", 50), By: "irc:bob", Turn: "t2"},
		{Agent: "main", Key: "wifi", Text: "the network is called home", By: "irc:ann"},
		{Agent: "coder", Person: "irc:ann", Key: "editor", Text: "Ann writes with ed", By: "irc:ann", Turn: "t3"},
	} {
		n.Updated = noon.Add(time.Duration(i) * time.Minute)
		ts.Check(s.WriteNote(ctx, n, 0))
	}
	ts.Check(s.Close())
}
