package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/children"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// child is a delegated turn as its supervisor sees it. It runs in the same loop under the same enforcement, in a session of its own
// that ends with it, and never speaks to people: its answer is the result of its parent's call or, for a background child, a message
// that the host itself writes to the conversation that it came from.
type child struct{ turn *turn }

var _ children.Child = child{}

// Turn implements children.Child.
func (c child) Turn() turnlog.Turn { return c.turn.row }

// Begin implements children.Child.
func (c child) Begin(ctx context.Context) error { return c.turn.commit(ctx) }

// Run implements children.Child. A child within a call ends with the call, and is left to the next process if the host goes down.
func (c child) Run(ctx context.Context) {
	host := ctx
	if parent := c.turn.delegated.parent; parent != nil {
		host, c.turn.delegated.call = parent.host, ctx
	}
	c.turn.run(host, nil)
}

// Fail implements children.Child.
func (c child) Fail(ctx context.Context, cause error) { c.turn.fail(ctx, cause) }

// Ended implements children.Child.
func (c child) Ended() bool { return c.turn.delegated.ending != nil }

// Result implements children.Child.
func (c child) Result() tool.Result {
	if c.turn.row.Background {
		return c.promise()
	}
	return c.outcome()
}

// ending is the outcome of a child.
type ending struct {
	state turnlog.TurnState
	text  string
}

// newChild makes the child of a call without beginning it.
func (t *turn) newChild(call string, args delegateArgs) (child, error) {
	now := t.cfg.Now()
	id := store.NewIDAfter(t.row.ID, now)
	chain := t.chain()
	above, agent, err := t.gen.chainOf(chain, args.Agent)
	if err != nil {
		return child{}, err
	}
	record := transcript.Delegated{Chain: chain, Origin: t.origin, Scope: string(t.workspaceKey()), Turns: t.session.count}
	if args.Background {
		share := children.Share(t.gen.Limits.counted(), t.spent(&t.state), t.gen.Delegation.MaxFanout)
		record.Tokens, record.ToolCalls = share.Tokens, share.ToolCalls
	}
	used := t.session.used
	used.Join(t.state.Used())
	c := t.newTurn(t.gen, t.policies, agent, t.origin, turnlog.Turn{
		ID: id, Session: t.row.Session.Child(id), Agent: args.Agent, Channel: t.row.Channel, Conversation: t.row.Conversation,
		Sender: t.row.Sender, State: turnlog.TurnRunning, Started: now.UTC(),
		Parent: t.row.ID, ParentCall: call, Background: args.Background,
	}, &delegated{record: record, above: above, parent: t})
	c.silent, c.elsewhere = true, t.spent(&t.state)
	c.session = &session{labels: tool.JoinLabels(t.session.labels, []string{tool.DelegatedLabel(t.agent.Name)}), used: used, count: t.session.count}
	c.step(transcript.UserStep{
		Said:       []transcript.Said{{Event: call, By: t.agent.Name, Text: args.Task, At: now.UTC()}},
		Generation: t.gen.Number, Labels: c.session.labels, Used: &used, Delegated: &record,
	})
	return child{c}, nil
}

// readChild reads a child back from the store. broken says why it cannot continue under the configuration in force. parent is nil if
// the parent does not run.
func (r *Runner) readChild(ctx context.Context, gen *Generation, policies Policies, row turnlog.Turn, parent *turn) (_ child, broken, err error) {
	steps, err := patiently(ctx, r, func() ([]turnlog.Step, error) { return r.cfg.Store.Steps(ctx, row.ID) })
	if err != nil {
		return child{}, nil, fmt.Errorf("read a delegated turn back: %w", err)
	}
	state, err := transcript.Read(steps)
	if err != nil {
		return child{}, nil, err
	}
	record := state.User.Delegated
	if record == nil || state.User.Used == nil {
		return child{}, nil, fmt.Errorf("turn %s has no record of its delegation", row.ID)
	}
	d := &delegated{record: *record}
	if !row.Background {
		d.parent = parent
	}
	var agent *Agent
	if d.above, agent, broken = gen.chainOf(record.Chain, row.Agent); broken != nil {
		agent = &Agent{Name: row.Agent}
	}
	c := r.newTurn(gen, policies, agent, record.Origin, row, d)
	c.state, c.session, c.silent, c.resumed = state, &session{count: record.Turns}, true, true
	switch {
	case d.parent != nil:
		c.elsewhere = parent.spent(&parent.state)
	case row.Background:
		c.elsewhere = transcript.Spent{Tokens: gen.Limits.Tokens - record.Tokens, ToolCalls: gen.Limits.ToolCalls - record.ToolCalls}
	}
	c.takeUp()
	if row.State != turnlog.TurnRunning {
		d.ending = &ending{row.State, c.lastWords()}
	}
	return child{c}, broken, nil
}

// lastWords returns what an ended child said last.
func (t *turn) lastWords() string {
	switch {
	case t.row.State == turnlog.TurnStopped:
		return "Stopped."
	case t.row.State == turnlog.TurnDone && len(t.state.Answers) > 0:
		return t.state.Text()
	}
	return "It failed; the host's log says why."
}

// outcome returns the result of an ended child: its answer, its usage and its labels. The label of the delegate's role stays out of the
// parent's session.
func (c child) outcome() tool.Result {
	t := c.turn
	f := t.delegated.ending
	text := f.text
	if f.state != turnlog.TurnDone {
		text = fmt.Sprintf("%s could not finish the task: %s", t.row.Agent, f.text)
	}
	res := tool.Result{
		Text: fmt.Sprintf("%s\n\n[%s: turn %s, %d model calls, %d tool calls, %d tokens]", text, t.row.Agent, t.row.ID, len(t.state.Answers),
			t.state.Made(), t.state.Used().Tokens),
		IsError: f.state != turnlog.TurnDone, Labels: c.passedUp(), Record: transcript.Encode(c.record()),
	}
	if f.state == turnlog.TurnDone {
		res.Attachments = t.state.Attachments()
	}
	return res
}

// passedUp returns the labels that the result brings to the parent.
func (c child) passedUp() []string {
	chain := c.turn.delegated.record.Chain
	own := tool.DelegatedLabel(chain[len(chain)-1].Agent)
	return slices.DeleteFunc(slices.Clone(c.turn.session.labels), func(l string) bool { return l == own })
}

// promise returns the result of the call that begins a background child.
func (c child) promise() tool.Result {
	return tool.Result{
		Text: fmt.Sprintf("%s works on it in the background. Its answer will come as a message; until then call %s with the id %s to see its progress.",
			c.turn.row.Agent, ResultTool, c.turn.row.ID),
		Record: transcript.Encode(c.record()),
	}
}

// record returns the record of a child; for a background child it is the share that was set aside for it.
func (c child) record() transcript.Child {
	t := c.turn
	r := transcript.Child{Turn: t.row.ID, Agent: t.row.Agent, State: t.row.State, Background: t.row.Background}
	if t.row.Background {
		r.Tokens, r.ToolCalls = t.delegated.record.Tokens, t.delegated.record.ToolCalls
		return r
	}
	spent := t.state.Spent()
	r.Tokens, r.ToolCalls, r.Used = spent.Tokens, spent.ToolCalls, t.state.Used()
	return r
}

// timeLimit returns how long the turn may take.
func (t *turn) timeLimit() time.Duration {
	if limit := t.gen.Delegation.Timeout; t.delegated != nil && limit > 0 {
		return min(limit, t.gen.Limits.Time)
	}
	return t.gen.Limits.Time
}

// follow cancels a child when the call that began it ends. A background child is ended by /stop.
func (t *turn) follow(cancel context.CancelCauseFunc) (unfollow func()) {
	if t.row.Background {
		t.children.Watch(t.row, cancel)
		return func() { t.children.Drop(t.row.ID) }
	}
	call := t.delegated.call
	stop := context.AfterFunc(call, func() {
		cause := context.Cause(call)
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = errTime
		}
		cancel(cause)
	})
	return func() { stop() }
}

// resumeChild continues a child that no parent waits for, unless its sender is no longer admitted.
func (r *Runner) resumeChild(ctx context.Context, gen *Generation, policies Policies, row turnlog.Turn, waited []journal.Decision) {
	c, broken, err := r.readChild(ctx, gen, policies, row, nil)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		r.cfg.Log.Error("cannot resume delegated turn", "turn", row.ID, "error", err)
		r.abandon(ctx, row, err)
		return
	}
	if why := gen.Admission.Refusal(c.turn.origin); broken == nil && row.Background && why != "" {
		broken = plainError("its sender is no longer admitted: " + why)
	}
	c.turn.pending.Decisions = append(c.turn.pending.Decisions, waited...)
	r.children.Work(ctx, c, broken)
}

// abandon ends a turn that cannot be read back.
func (r *Runner) abandon(ctx context.Context, row turnlog.Turn, cause error) {
	defer r.children.Drop(row.ID)
	r.withdrawOwn(ctx, row.ID)
	row.State, row.Error, row.Ended = turnlog.TurnFailed, cause.Error(), r.cfg.Now().UTC()
	err := r.cfg.Store.CommitTurn(context.WithoutCancel(ctx), turnlog.Commit{Turn: row, InboxState: mailbox.InboxFailed})
	if err != nil && !store.Settled(err) {
		r.cfg.Log.Error("cannot end a delegated turn", "turn", row.ID, "error", err)
	}
}
