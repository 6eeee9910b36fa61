package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// The answer of a background child comes to its conversation through the inbox, as a message that the host writes. Like any other
// message it is committed, admitted and routed, on behalf of the sender of the first message, to the agent that delegated. Its event id
// is derived from the turn, so that it is delivered once even if the host dies.

// handOver puts the answer of a background child into the inbox, after its last step is committed and before its end is.
func (t *turn) handOver(ctx context.Context, state turnlog.TurnState, text string) bool {
	return t.commit(ctx) == nil && t.children.HandOver(ctx, t.row.ID, t.report(state, text))
}

// report returns the message about a child that has ended. A stopped child is not reported: the person who stopped it wants silence.
func (t *turn) report(state turnlog.TurnState, text string) message.Message {
	how := "has done the task that you gave it in the background"
	switch state {
	case turnlog.TurnStopped:
		how = "was stopped at the task that you gave it in the background"
	case turnlog.TurnFailed:
		how = "could not finish the task that you gave it in the background"
	}
	head := fmt.Sprintf("[%s %s (id %s): %s]", t.row.Agent, how, t.row.ID, transcript.Quote(t.state.User.Text()))
	if files := t.state.Attachments(); len(files) > 0 {
		head += fmt.Sprintf("\n[it attached %d files, which are in the workspace; attach them yourself]", len(files))
	}
	m := t.origin
	return message.Message{
		Channel: m.Channel, EventID: "delegate/" + t.row.ID, Conversation: m.Conversation, Sender: m.Sender,
		Text: head + "\n" + text, Addressed: true, Agent: t.delegated.record.Chain[0].Agent,
		Act: message.Delegated, About: message.About{ID: t.row.ID, Ours: true}, Noted: state == turnlog.TurnStopped,
	}
}

// returned adds the labels of the background children whose answers the turn gets to the session, and counts their usage.
func (t *turn) returned(ctx context.Context, rows []mailbox.InboxRow) error {
	for _, row := range rows {
		if row.Message.Act != message.Delegated {
			continue
		}
		c, err := t.childOf(ctx, row.Message.About.ID)
		if err != nil {
			return fmt.Errorf("read back what a delegated turn has touched: %w", err)
		}
		t.session.label(c.passedUp())
		t.session.used.Join(c.turn.state.Used())
	}
	return nil
}

// childOf reads a child from the store.
func (t *turn) childOf(ctx context.Context, id string) (child, error) {
	row, err := patiently(ctx, t.Runner, func() (turnlog.Turn, error) { return t.cfg.Store.ChildTurn(ctx, id) })
	if err != nil {
		return child{}, err
	}
	c, _, err := t.readChild(ctx, t.gen, t.policies, row, nil)
	return c, err
}

// resultTool is agent.result.
type resultTool struct{}

// Spec implements tool.Tool.
func (resultTool) Spec() tool.Spec {
	return tool.Spec{
		Name: ResultTool, Effect: tool.Read,
		Description: "Get the progress or the result of a task that was delegated in the background.",
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"properties":{
			"id":{"type":"string","minLength":1,"maxLength":64}}}`),
	}
}

// Run implements tool.Tool.
func (resultTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct{ ID string }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return refuse("the arguments do not fit: %v", err)
	}
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return refuse("only an agent in a turn of its own can ask for a result")
	}
	c, err := t.childOf(ctx, strings.TrimSpace(args.ID))
	if err == nil && message.WorkspaceKey(c.turn.delegated.record.Scope) != t.workspaceKey() {
		err = store.ErrNotFound // it belongs to another conversation
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse("this conversation has no delegated task with the id %q", args.ID)
	case err != nil:
		return tool.Result{}, err
	case c.turn.delegated.ending == nil:
		return tool.Result{Text: fmt.Sprintf("%s is still at work: %d model calls and %d tool calls so far. Its answer will come as a message.",
			c.turn.row.Agent, len(c.turn.state.Answers), c.turn.state.Made())}, nil
	}
	res := c.outcome()
	res.Attachments = nil
	return res, nil
}

// hostSpeaker is shown as the speaker when the host itself writes into a group.
const hostSpeaker = "(host)"

// by returns who wrote a message.
func by(m message.Message) string {
	if m.Act == message.Delegated {
		return hostSpeaker
	}
	return speaker(m.Sender)
}
