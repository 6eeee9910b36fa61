package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Turn is a running turn.
type Turn struct {
	backend *Backend
	conv    *conversation
	message message.Message
	id      string

	pending   []gateway.Entry // for the next commit
	committed bool
}

// Message is the message that the turn answers.
func (t *Turn) Message() message.Message { return t.message }

// add puts an entry into the next commit, as a real turn does with what it streams and announces. The backend's lock is held.
func (t *Turn) add(e gateway.Entry) { t.pending = append(t.pending, t.stamp(e)) }

// commit makes the pending entries part of the history. The backend's lock is held.
func (t *Turn) commit() {
	t.conv.entries = append(t.conv.entries, t.pending...)
	t.pending, t.committed = nil, true
}

// Say streams text in pieces of a word.
func (t *Turn) Say(text string) {
	for _, word := range strings.SplitAfter(text, " ") {
		t.publish(message.Event{Kind: message.TextDelta, Text: word}, nil)
	}
}

// Interim streams a text before a tool call, with which it is committed.
func (t *Turn) Interim(text string) {
	t.Say(text)
	t.Keep(text)
}

// Keep has the text committed with the next tool call.
func (t *Turn) Keep(text string) {
	t.publish(message.Event{}, func(*conversation) { t.add(gateway.Entry{From: gateway.FromAgent, Text: text}) })
}

// Call is a tool call with what enforcement says about it. Output is what it would print.
type Call struct {
	Tool     string
	Args     any
	Decision string // run, run_in_sandbox, ask or deny
	Where    string
	Reasons  []string
	Output   string
	IsError  bool
	// Before runs between the announcement of the call and its commit, During after its output has come; both may be nil.
	Before, During func()
}

// Run plays a tool call: it waits for a person if the decision is ask, and returns whether the tool ran.
func (t *Turn) Run(ctx context.Context, call Call) (bool, error) {
	args, err := json.Marshal(call.Args)
	if err != nil {
		return false, err
	}
	view := &gateway.ToolCall{ID: t.name("call"), Tool: call.Tool, Args: args}
	base := message.Event{Call: view.ID, Tool: call.Tool, Where: call.Where}
	with := func(kind message.EventKind, edit func(*message.Event)) message.Event {
		e := base
		e.Kind = kind
		edit(&e)
		return e
	}
	t.publish(with(message.ToolCall, func(e *message.Event) { e.Args = args }), func(*conversation) {
		t.add(gateway.Entry{From: gateway.FromTool, Call: view})
	})
	if call.Before != nil {
		call.Before()
	}
	t.publish(with(message.ToolDecision, func(e *message.Event) { e.Decision, e.Reasons = call.Decision, call.Reasons }), func(*conversation) {
		view.Decision, view.Where, view.Reasons = call.Decision, call.Where, call.Reasons
		t.commit()
	})
	ran := call.Decision != "deny"
	if call.Decision == "ask" {
		if ran, err = t.ask(ctx, call, args, view); err != nil {
			return false, err
		}
	}
	text := call.Output
	if !ran {
		text = "refused: " + strings.Join(call.Reasons, "; ")
	} else {
		for _, line := range strings.SplitAfter(text, "\n") {
			t.publish(with(message.ToolProgress, func(e *message.Event) { e.Text = line }), nil)
		}
	}
	if call.During != nil {
		call.During()
	}
	failed := call.IsError || !ran
	t.publish(with(message.ToolResult, func(e *message.Event) { e.Text, e.IsError = text, failed }), func(c *conversation) {
		for i := range c.entries {
			if c.entries[i].Call == view {
				c.entries[i].Text, c.entries[i].IsError = text, failed
			}
		}
		view.Done = true
	})
	return ran, nil
}

func (t *Turn) ask(ctx context.Context, call Call, args json.RawMessage, view *gateway.ToolCall) (bool, error) {
	a := &approval{answer: make(chan bool, 1), Approval: consent.Approval{
		ID: t.name("approval"), Turn: t.id, Session: message.SessionKey(string(t.message.ConversationKey()) + ":demo"), Agent: "demo",
		Requester: t.message.SenderKey(), Tool: call.Tool, Args: args, Dir: "/home/ada/work", Where: call.Where,
		Reasons: call.Reasons, State: consent.ApprovalPending, Created: time.Now(), Expires: time.Now().Add(10 * time.Minute),
	}}
	t.publish(message.Event{
		Kind: message.ToolApproval, Call: view.ID, Tool: call.Tool, Args: args, Where: call.Where,
		Reasons: call.Reasons, Approval: a.ID,
	}, func(*conversation) {
		view.Approval = a.ID
		t.backend.approvals[a.ID] = a
		t.backend.order = append(t.backend.order, a.ID)
		t.backend.note(store.Approvals, a.ID, a.Requester)
	})
	select {
	case grant := <-a.answer:
		return grant, nil
	case <-ctx.Done():
		t.backend.mu.Lock()
		defer t.backend.mu.Unlock()
		a.State = consent.ApprovalExpired
		t.backend.note(store.Approvals, a.ID, a.Requester)
		return false, ctx.Err()
	}
}

// publish changes the conversation and sends its watchers the event in one step, like a commit and its event. Without a
// kind there is no event.
func (t *Turn) publish(e message.Event, change func(*conversation)) {
	t.backend.mu.Lock()
	defer t.backend.mu.Unlock()
	if change != nil {
		change(t.conv)
	}
	if e.Kind == "" {
		return
	}
	e.Channel, e.Conversation, e.Turn, e.Agent = t.conv.info.Channel, t.conv.info.ID, t.id, "demo"
	t.backend.watching().Publish(e)
}

func (t *Turn) stamp(e gateway.Entry) gateway.Entry {
	e.Turn, e.Agent, e.Time = t.id, "demo", time.Now()
	return e
}

func (t *Turn) name(what string) string {
	t.backend.mu.Lock()
	defer t.backend.mu.Unlock()
	return t.backend.id(what)
}

// Demo answers by the first word: "!ask", "!box", "!run" and "!deny" play a shell call with that decision, "!fail" fails,
// "!hang" streams and then waits to be stopped; anything else is repeated.
func Demo(ctx context.Context, t *Turn, text string) (string, error) {
	word, rest, _ := strings.Cut(text, " ")
	call := Call{Tool: "shell", Args: map[string]string{"command": rest}, Output: "ran: " + rest + "\n"}
	switch word {
	case "!ask":
		call.Decision, call.Where, call.Reasons = "ask", "host", []string{"approve: shell commands on the host wait for a person"}
	case "!box":
		call.Decision, call.Where = "run_in_sandbox", "default"
	case "!run":
		call.Decision, call.Where = "run", "host"
	case "!deny":
		call.Decision, call.Reasons = "deny", []string{"no-curl: " + rest + " is not allowed"}
	case "!fail":
		return "", fmt.Errorf("the model could not be reached")
	case "!hang":
		t.Say("Thinking about it ")
		<-ctx.Done()
		return "", ctx.Err()
	default:
		reply := "You said: " + text
		t.Say(reply)
		return reply, nil
	}
	t.Interim("Let me see.")
	ran, err := t.Run(ctx, call)
	if err != nil {
		return "", err
	}
	reply := "The command ran."
	if !ran {
		reply = "The command was not run."
	}
	t.Say(reply)
	return reply, nil
}
