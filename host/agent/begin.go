package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// begin starts a turn for claimed messages and runs it to its end. rest are the items queued behind them. It returns the items that the
// turn leaves to the next one.
func (r *Runner) begin(ctx context.Context, gen *Generation, policies Policies, at turnlog.Scope, c claim, rest []Item) (released []Item) {
	m := c.rows[0].Message
	a := gen.Agents[c.agent].fitted(at.Tier)
	now := r.cfg.Now()
	t := r.newTurn(gen, policies, a, m, turnlog.Turn{
		ID: store.NewID(now), Session: at.Session(a.Name), Agent: a.Name, Channel: m.Channel,
		Conversation: m.Conversation, Sender: m.SenderKey(), State: turnlog.TurnRunning, Started: now.UTC(),
	}, nil)
	t.scope, t.rest, t.mayInterrupt = at, rest, c.fresh
	for _, row := range c.rows {
		t.row.Inbox = append(t.row.Inbox, row.ID)
	}
	if !t.load(ctx) {
		return nil
	}
	t.row.ID = store.NewIDAfter(t.session.last, now) // the conversation is read back in id order
	t.session.last = t.row.ID
	t.pending.Decisions = c.decisions
	t.session.label(roleLabel(gen.Roles.Of(m.Channel, m.SenderKey())))
	t.session.label(attachmentLabels(c.rows))
	if err := t.returned(ctx, c.rows); err != nil {
		t.session = nil // the turn has not begun
		t.fail(ctx, err)
		return nil
	}
	files := t.takeFiles(ctx, c.rows)
	t.session.label(fileLabels(files))
	if t.session.used.Began.IsZero() {
		t.session.used.Began = t.row.Started
	}
	said := newUserStep(c.rows, files)
	said.Notes = slices.Concat(opening(at, t.session), t.takeNotes(), t.fileNotes())
	said.Recalled = t.recall(ctx, c.rows)
	used := t.session.used
	said.Generation, said.Labels, said.Used, said.Program = gen.Number, t.session.labels, &used, t.session.program
	said.Folder = cmp.Or(m.Folder, t.session.folder)
	t.step(said)
	return t.run(ctx, c.rows)
}

// roleLabel returns the label for the sender's role, unless it is an owner. It stays with the session, because what others said remains
// in the transcript when an owner speaks next.
func roleLabel(role string) []string {
	if role == route.Owner {
		return nil
	}
	return []string{"sender:" + role}
}

// attachmentLabels returns the labels for attached files. Even a sender with every right may forward a file from anybody.
func attachmentLabels(rows []mailbox.InboxRow) []string {
	var labels []string
	for _, r := range rows {
		for _, a := range r.Message.Attachments {
			labels = append(labels, "attachment:"+cmp.Or(a.Type, "unknown"))
		}
	}
	return labels
}

// resume continues a turn of an earlier process from its last committed step. The configuration may have changed: the turn continues
// only if the one in force would begin it too. rest and the result are those of begin.
func (r *Runner) resume(
	ctx context.Context, gen *Generation, policies Policies, at turnlog.Scope, it Item, rest []Item,
) (released []Item) {
	if it.Turn.Parent != "" {
		r.resumeChild(ctx, gen, policies, *it.Turn, it.waited)
		return nil
	}
	log := r.cfg.Log.With("turn", it.Turn.ID)
	if len(it.Rows) == 0 { // unreachable: the rows end with the turn
		log.Error("turn has no message to answer")
		r.holdings.doubt(store.ConversationOwner(it.Turn.ConversationKey()))
		return nil
	}
	a, ok := gen.Agents[it.Turn.Agent]
	if !ok {
		a = &Agent{Name: it.Turn.Agent}
	}
	t := r.newTurn(gen, policies, a.fitted(at.Tier), it.Rows[0].Message, *it.Turn, nil)
	t.scope, t.rest, t.mayInterrupt, t.resumed = at, rest, true, true
	if !t.load(ctx) {
		return nil
	}
	steps, err := patiently(ctx, r, func() ([]turnlog.Step, error) { return r.cfg.Store.Steps(ctx, it.Turn.ID) })
	if err == nil {
		t.state, err = transcript.Read(steps)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.fail(ctx, fmt.Errorf("read the turn back: %w", err))
	case !ok:
		t.fail(ctx, plainError(fmt.Sprintf("agent %q is no longer configured", it.Turn.Agent)))
	default:
		t.takeUp()
		t.pending.Decisions = append(t.pending.Decisions, it.waited...)
		if err := t.stillRouted(ctx, it.Rows); err != nil {
			t.fail(ctx, err)
			return nil
		}
		log.Info("turn resumes", "steps", len(steps))
		return t.run(ctx, it.Rows)
	}
	return nil
}

// takeUp gives the session the start of the turn and the labels of what it has touched.
func (t *turn) takeUp() {
	if before := t.state.User.Used; before != nil {
		t.session.used = *before
	}
	t.session.label(t.state.Labels())
}

// stillRouted checks that the messages of a resumed turn would still be routed to its agent.
func (t *turn) stillRouted(ctx context.Context, rows []mailbox.InboxRow) error {
	for _, row := range rows {
		agent, why, decisions := t.route(ctx, t.gen, t.policies, t.scope, row.Message)
		t.pending.Decisions = append(t.pending.Decisions, decisions...)
		switch {
		case agent == "":
			t.silent = true
			return fmt.Errorf("this message is no longer answered: %s", why)
		case agent != t.row.Agent:
			return plainError("the host was restarted, and your message would now go to another agent. Please send it again")
		}
	}
	return nil
}

// patiently repeats a read until the store answers. An outage of the store delays a message but never fails it.
func patiently[T any](ctx context.Context, r *Runner, read func() (T, error)) (T, error) {
	for {
		v, err := read()
		if !errors.Is(err, store.ErrPassing) || ctx.Err() != nil {
			return v, err
		}
		r.cfg.Log.Error("cannot read the store; trying again", "error", err)
		pause(ctx)
	}
}

func (t *turn) load(ctx context.Context) bool {
	s, err := patiently(ctx, t.Runner, func() (*session, error) { return t.sessions.get(ctx, t.row.Session) })
	if err != nil {
		if ctx.Err() == nil {
			t.cfg.Log.Error("cannot begin turn", "session", t.row.Session, "error", err)
			t.fail(ctx, plainError("the conversation could not be read"))
		}
		return false
	}
	t.session = s
	return true
}
