package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
)

// end ends the turn with a reply, in one commit, and hands the reply to the outbox.
func (t *turn) end(ctx context.Context, state turnlog.TurnState, text string, cause error) {
	if t.row.Background && !t.handOver(ctx, state, text) {
		return
	}
	if t.resumed {
		t.withdrawOwn(ctx, t.row.ID)
	}
	if t.cut {
		text += fmt.Sprintf("\n\n(What you wrote was longer than %d KiB. I have not read what came after that.)", message.MaxText>>10)
	}
	now := t.cfg.Now().UTC()
	t.row.State, t.row.Ended = state, now
	t.pending.InboxState = mailbox.InboxDone
	if cause != nil {
		t.row.Error = cause.Error()
	}
	if state == turnlog.TurnFailed {
		t.pending.InboxState = mailbox.InboxFailed
	}
	reply := t.reply(text)
	if state == turnlog.TurnDone {
		reply.Attachments = t.state.Attachments()
	}
	if t.silent {
		t.pending.InboxState = mailbox.InboxDropped
	} else {
		t.pending.Replies = []message.Reply{reply}
	}
	t.pending.Extract = state == turnlog.TurnDone && t.extracts()
	extract := t.pending.Extract
	if err := t.commit(ctx); err != nil {
		t.sessions.forget(t.row.Session)
		if ctx.Err() == nil {
			t.cfg.Log.Error("cannot end turn", "turn", t.row.ID, "error", err)
			t.publish(message.Event{Kind: message.TurnDone})
		}
		return
	}
	if t.delegated != nil {
		t.delegated.ending = &ending{state, text}
	}
	t.remember()
	if !t.silent {
		t.publish(message.Event{Kind: outcome(state), Text: text, Key: reply.Key, IsError: state != turnlog.TurnDone})
		t.cfg.Outbox.Push(t.row.ID, reply)
	}
	if extract {
		t.wakeExtraction()
	}
	t.publish(message.Event{Kind: message.TurnDone})
	t.cfg.Events.Publish(TurnEnded{
		Turn: t.row.ID, Agent: t.row.Agent, State: state, Took: now.Sub(t.row.Started), WithParent: t.delegated != nil && !t.row.Background,
	})
}

// remember adds the turn to its session in the cache.
func (t *turn) remember() {
	if t.session == nil {
		return
	}
	t.session.add(t.row.ID, &t.state)
	t.session.count++
	t.session.at = t.row.Started
	if t.session.key != "" { // a delegated turn has a session of its own
		t.sessions.keep(t.session)
	}
}

// reply returns the turn's reply.
func (t *turn) reply(text string) message.Reply {
	r := message.Reply{
		Key: transcript.ReplyKey(t.row.ID), Channel: t.row.Channel, Conversation: t.row.Conversation, ReplyTo: answers(t.origin), Text: text,
	}
	if len(t.row.Inbox) > 0 {
		r.Answers = t.row.Inbox[0]
	}
	return r
}

// answers returns the platform's id of the message that a reply answers. The event of an edit is not a message, and the platform does
// not know messages that the host wrote.
func answers(m message.Message) string {
	if m.Edited || m.Act == message.Delegated {
		return ""
	}
	return m.EventID
}

// outcome returns the kind of the event that carries the reply. Watchers get the words for people; the log gets the cause.
func outcome(state turnlog.TurnState) message.EventKind {
	if state == turnlog.TurnDone {
		return message.ReplyReady
	}
	return message.TurnFailed
}

// fail ends a turn that cannot be answered. The sender gets an explanation; the log and the store get the cause.
func (t *turn) fail(ctx context.Context, cause error) {
	t.cfg.Log.Error("turn failed", "turn", t.row.ID, "agent", t.row.Agent, "error", cause)
	t.end(ctx, turnlog.TurnFailed, "I could not answer this: "+t.words(cause), cause)
}

// words explains a cause to the sender. An owner at the machine also reads what the log says. The answer of a delegated turn goes to a
// model and never contains it.
func (t *turn) words(err error) string {
	if plainText(err) != "" || t.delegated != nil || t.gen == nil || !route.Local(t.row.Channel) ||
		t.gen.Roles.Of(t.row.Channel, t.row.Sender) != route.Owner {
		return forPeople(err)
	}
	text, _, _ := strings.Cut(forPeople(err), " The operator's log says")
	return text + "\n\n" + strings.ToValidUTF8(err.Error(), "\uFFFD")
}

// forPeople explains a cause without details for the operator only.
func forPeople(err error) string {
	if plain := plainText(err); plain != "" {
		return plain + "."
	}
	var e *model.Error
	if !errors.As(err, &e) {
		return "something went wrong inside the host. The operator's log says what."
	}
	switch e.Kind {
	case model.RateLimited, model.Overloaded:
		return "the model is too busy right now. Please try again later."
	case model.Timeout, model.Unreachable, model.Cut:
		return "the model could not be reached. Please try again later."
	case model.Lacking:
		return "this machine is short of descriptors or memory right now. Please try again later."
	case model.TooLong:
		return "this conversation has grown too long for the model."
	case model.BadAnswer:
		return "the model's answer could not be read. Please try again."
	}
	return "the model refused the request. The operator's log says why."
}

// plainText returns the text of an error that is meant for everybody, or "".
func plainText(err error) string {
	var plain plainError
	if errors.As(err, &plain) {
		return string(plain)
	}
	var full *transcript.Exceeded
	if errors.As(err, &full) {
		return full.Error()
	}
	return ""
}
