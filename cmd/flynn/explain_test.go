package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/tool"
)

// leaveTurn is the script command "tell CONFIG": it leaves a turn and a message that was dropped in the configuration's store, and keeps
// that open to the end of the script as a host would.
func leaveTurn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tell CONFIG")
	}
	ctx, s := context.Background(), openStoreOf(ts, args[0])
	ts.Defer(func() { ts.Check(s.Close()) })
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := message.Message{
		Channel: "irc", EventID: "e1", Text: "list my files", Sender: message.Sender{ID: "ann"}, ReceivedAt: noon,
		Conversation: message.Conversation{ID: "ann", Kind: message.DM},
	}
	row, _, err := s.AppendInbox(ctx, said, mailbox.InboxNew, "")
	ts.Check(err)
	ts.Check(s.CommitTurn(ctx, oneTurn(noon, said, row.ID)))
	said.EventID, said.Sender.ID, said.Conversation.ID, said.Text, said.ReceivedAt = "e2", "eve", "eve", "", noon.Add(time.Hour)
	_, _, err = s.AppendInbox(ctx, said, mailbox.InboxDropped, "irc:e\x1bve is not on the list")
	ts.Check(err)
}

// oneTurn lists files in the sandbox.
func oneTurn(noon time.Time, said message.Message, row int64) turnlog.Commit {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	step := func(seq, ms int, kind turnlog.StepKind, record any) turnlog.Step {
		data, _ := json.Marshal(record) // plain structs
		return turnlog.Step{Seq: seq, Kind: kind, Data: data, At: at(ms)}
	}
	start := transcript.ToolStart{
		Call: "c1", Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`), Decision: "run_in_sandbox", Where: "default",
		Reasons: []string{"policy guard: in the sandbox"},
	}
	asks := model.Response{Stop: model.StopToolCalls, Provider: "anthropic", Model: "m", Tier: "default", Usage: model.Usage{Input: 900, Output: 20, CostUSD: 0.0012}}
	asks.Message.Calls = []model.ToolCall{{ID: "c1", Name: "shell.exec", Args: start.Args}}
	return turnlog.Commit{
		Turn: turnlog.Turn{
			ID: "t1", Session: "irc:ann:main", Agent: "main", Channel: "irc", Conversation: said.Conversation, Sender: "irc:ann", Inbox: []int64{row},
			State: turnlog.TurnStopped, Error: "stopped by irc:ann", Started: noon, Ended: at(2500),
		},
		InboxState: mailbox.InboxDone,
		Steps: []turnlog.Step{
			step(0, 0, turnlog.StepUser, transcript.UserStep{Generation: 2, Said: []transcript.Said{{Text: said.Text}}}), step(1, 1000, turnlog.StepModel, asks),
			step(2, 1010, turnlog.StepToolStart, start),
			step(3, 2000, turnlog.StepToolResult, transcript.ToolResult{ToolStart: start, Result: tool.Result{Text: "a\nb"}}),
		},
		Decisions: []journal.Decision{
			{At: noon, Kind: "route_table", Policy: "table", Answer: "main", Reason: "default"},
			{At: at(1002), Kind: "tool", Policy: "guard", Answer: "sandbox", Reason: "in the sandbox", Fuel: 1200, Nanos: 31000},
			{At: at(1003), Kind: "enforce", Policy: "host", Answer: "run default", Reason: `shell.exec: ["policy guard: in the sandbox"]`},
		},
		Usage: []usage.Row{{
			At: at(2), Turn: "t1", Step: 1, Tier: "default", Provider: "anthropic", Model: "m", Attempt: 1, Input: 900, Output: 20, Cost: 1_200_000,
		}},
		Replies: []message.Reply{{Key: "t1/0", Channel: "irc", Conversation: said.Conversation, Text: "This answer was stopped."}},
	}
}
