package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// A child is a turn that another turn has delegated. It runs in the same loop under the same enforcement, in a session of its own
// that ends with it, and never speaks to people: what it says is the result of its parent's call, or, in the background, a message
// of the host's own to the conversation that it came from.

// ending is what came of a child.
type ending struct {
	state turnlog.TurnState
	text  string
}

// newChild makes the child of a call and does not begin it.
func (t *turn) newChild(call string, args delegateArgs) (*turn, error) {
	now := t.cfg.Now()
	id := store.NewIDAfter(t.row.ID, now)
	chain := t.chain()
	forebears, agent, err := t.gen.lineageOf(chain, args.Agent)
	if err != nil {
		return nil, err
	}
	record := transcript.Delegated{Chain: chain, Origin: t.origin, Place: t.home(), Turns: t.session.count}
	if args.Background {
		record.Tokens, record.ToolCalls = t.share()
	}
	used := t.session.used
	used.Join(t.state.Used())
	c := &turn{
		Runner: t.Runner, gen: t.gen, policies: t.policies, agent: agent, origin: t.origin, silent: true,
		lineage: &lineage{record: record, forebears: forebears, parent: t},
		session: &session{labels: tool.JoinLabels(t.session.labels, []string{tool.DelegatedLabel(t.agent.Name)}), used: used, count: t.session.count},
		row: turnlog.Turn{
			ID: id, Session: t.row.Session + "/" + id, Agent: args.Agent, Channel: t.row.Channel, Conversation: t.row.Conversation,
			Sender: t.row.Sender, State: turnlog.TurnRunning, Started: now.UTC(),
			Parent: t.row.ID, ParentCall: call, Background: args.Background,
		},
	}
	c.elsewhere = t.spent()
	c.step(transcript.UserStep{
		Said:       []transcript.Said{{Event: call, By: t.agent.Name, Text: args.Task, At: now.UTC()}},
		Generation: t.gen.Number, Labels: c.session.labels, Used: &used, Delegated: &record,
	})
	return c, nil
}

// share is what a background child gets of what its parent may still use, and what the parent has no more then: as much as everybody
// gets if the turn delegates as often as it may, and goes on itself.
func (t *turn) share() (tokens, calls int) {
	l, parts := t.gen.Limits, t.gen.Delegation.MaxFanout+1
	spent := t.spent()
	return max(l.Tokens-spent.Tokens, 0) / parts, max(l.ToolCalls-spent.ToolCalls, 0) / parts
}

// readChild makes a child of what the store has of it. broken says why it cannot go on by the configuration in force. Parent is
// nil where it does not run.
func (r *Runner) readChild(ctx context.Context, gen *Generation, policies Policies, row turnlog.Turn, parent *turn) (c *turn, broken, err error) {
	steps, err := patiently(ctx, r, func() ([]turnlog.Step, error) { return r.cfg.Store.Steps(ctx, row.ID) })
	if err != nil {
		return nil, nil, fmt.Errorf("read a delegated turn back: %w", err)
	}
	state, err := transcript.Read(steps)
	if err != nil {
		return nil, nil, err
	}
	record := state.User.Delegated
	if record == nil || state.User.Used == nil {
		return nil, nil, fmt.Errorf("turn %s does not say who has delegated it", row.ID)
	}
	c = &turn{
		Runner: r, gen: gen, policies: policies, row: row, origin: record.Origin, state: state, silent: true, resumed: true,
		lineage: &lineage{record: *record}, session: &session{count: record.Turns},
	}
	if !row.Background {
		c.lineage.parent = parent
	}
	if c.lineage.forebears, c.agent, broken = gen.lineageOf(record.Chain, row.Agent); broken != nil {
		c.agent = &Agent{Name: row.Agent}
	}
	switch {
	case c.lineage.parent != nil:
		c.elsewhere = parent.spent()
	case row.Background:
		c.elsewhere = transcript.Spent{Tokens: gen.Limits.Tokens - record.Tokens, ToolCalls: gen.Limits.ToolCalls - record.ToolCalls}
	}
	c.takeUp()
	if row.State != turnlog.TurnRunning {
		c.lineage.ending = &ending{row.State, c.lastWords()}
	}
	return c, broken, nil
}

// lastWords are those of a child that has ended.
func (t *turn) lastWords() string {
	switch {
	case t.row.State == turnlog.TurnStopped:
		return "Stopped."
	case t.row.State == turnlog.TurnDone && len(t.state.Answers) > 0:
		return t.state.Text()
	}
	return "It failed; the host's log says why."
}

// runChild runs a child within its parent's call, and ends it with that.
func (t *turn) runChild(ctx context.Context, c *turn) (tool.Result, error) {
	c.until = ctx
	c.run(t.host, nil)
	if c.lineage.ending == nil { // the host goes down, or the store has settled it otherwise
		return tool.Result{}, errors.Join(ctx.Err(), errors.New("the delegated turn was not brought to its end"))
	}
	return c.returns(), nil
}

// returns is what a child that has ended gives back: what it said, what it used, and what it has touched. That it was a delegate
// is no matter of the parent's session.
func (t *turn) returns() tool.Result {
	f := t.lineage.ending
	text := f.text
	if f.state != turnlog.TurnDone {
		text = fmt.Sprintf("%s could not finish the task: %s", t.row.Agent, f.text)
	}
	res := tool.Result{
		Text: fmt.Sprintf("%s\n\n[%s: turn %s, %d model calls, %d tool calls, %d tokens]", text, t.row.Agent, t.row.ID, len(t.state.Answers),
			t.state.Made(), t.state.Used().Tokens),
		IsError: f.state != turnlog.TurnDone, Labels: t.passedUp(), Verdict: transcript.Encode(t.child()),
	}
	if f.state == turnlog.TurnDone {
		res.Attachments = t.state.Attachments()
	}
	return res
}

// passedUp are the labels that come back with a result.
func (t *turn) passedUp() []string {
	chain := t.lineage.record.Chain
	own := tool.DelegatedLabel(chain[len(chain)-1].Agent)
	return slices.DeleteFunc(slices.Clone(t.session.labels), func(l string) bool { return l == own })
}

// begun is what a call gets for a background child.
func (t *turn) begun() tool.Result {
	return tool.Result{
		Text: fmt.Sprintf("%s works on it in the background. What it says will come as a message; until then %s tells how far it is, by the id %s.",
			t.row.Agent, ResultTool, t.row.ID),
		Verdict: transcript.Encode(t.child()),
	}
}

// child is the record of a child: for one in the background, what was set aside for it.
func (t *turn) child() transcript.Child {
	c := transcript.Child{Turn: t.row.ID, Agent: t.row.Agent, State: t.row.State, Background: t.row.Background}
	if t.row.Background {
		c.Tokens, c.ToolCalls = t.lineage.record.Tokens, t.lineage.record.ToolCalls
		return c
	}
	spent := t.state.Spent()
	c.Tokens, c.ToolCalls, c.Used = spent.Tokens, spent.ToolCalls, t.state.Used()
	return c
}

// timeLimit is how long the turn may take.
func (t *turn) timeLimit() time.Duration {
	if limit := t.gen.Delegation.Timeout; t.lineage != nil && limit > 0 {
		return min(limit, t.gen.Limits.Time)
	}
	return t.gen.Limits.Time
}

// follow ends a child with the call that it is the work of. In the background, /stop ends it.
func (t *turn) follow(cancel context.CancelCauseFunc) (unfollow func()) {
	if t.row.Background {
		return t.offspring.register(t.row, cancel)
	}
	stop := context.AfterFunc(t.until, func() {
		cause := context.Cause(t.until)
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = errTime
		}
		cancel(cause)
	})
	return func() { stop() }
}

// shown turns an event of a child into one of the turn that people watch: the calls of delegates are seen, and asked about, among
// those of the agent that they work for. Their words are not for people.
func (t *turn) shown(e message.Event) {
	switch e.Kind {
	case message.ToolCall, message.ToolVerdict, message.ToolApproval, message.ToolProgress, message.ToolResult:
	default:
		return
	}
	e.Call = t.row.ParentCall + "/" + e.Call
	if t.lineage.parent != nil {
		t.lineage.parent.publish(e)
		return
	}
	e.Channel, e.Conversation, e.Turn, e.Agent = t.row.Channel, t.row.Conversation.ID, t.row.ID, t.row.Agent
	t.cfg.Events.Publish(e)
}

// resumeChild runs a child that no parent waits for: one in the background goes on, unless the sender may no longer be heard; what
// a turn has left behind that has ended meanwhile ends too.
func (r *Runner) resumeChild(ctx context.Context, gen *Generation, policies Policies, row turnlog.Turn, waited []journal.Decision) {
	c, broken, err := r.readChild(ctx, gen, policies, row, nil)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		r.cfg.Log.Error("cannot resume delegated turn", "turn", row.ID, "error", err)
		r.abandon(ctx, row, err)
	case broken != nil:
		c.fail(ctx, broken)
	case !row.Background:
		c.fail(ctx, plainError("the turn that asked for this has ended"))
	default:
		if why := gen.Admits(c.origin); why != "" {
			c.fail(ctx, plainError("its sender is no longer admitted: "+why))
			return
		}
		c.pending.Decisions = append(c.pending.Decisions, waited...)
		c.run(ctx, nil)
	}
}

// abandon ends a turn that cannot be read.
func (r *Runner) abandon(ctx context.Context, row turnlog.Turn, cause error) {
	r.withdrawOwn(ctx, row.ID)
	row.State, row.Error, row.Ended = turnlog.TurnFailed, cause.Error(), r.cfg.Now().UTC()
	err := r.cfg.Store.CommitTurn(context.WithoutCancel(ctx), turnlog.Commit{Turn: row, InboxState: mailbox.InboxFailed})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		r.cfg.Log.Error("end a delegated turn", "turn", row.ID, "error", err)
	}
}
