package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Causes for the end of a turn's context.
var (
	errStopped = errors.New("stopped by a person")
	errTime    = plainError("the turn took too long")
)

// plainError is an error that the sender may read.
type plainError string

func (e plainError) Error() string { return string(e) }

// errBroken is what people are told of a bug.
var errBroken = plainError("something broke inside the host. The operator's log says what")

// turn is one answer in the making. It belongs to the goroutine that runs it.
type turn struct {
	*Runner
	gen      *Generation
	policies Policies
	agent    *Agent
	session  *session
	row      store.Turn
	origin   message.Message // of the first message: sender, place, door
	steps    turnSteps
	time     *stopwatch
	silent   bool // the sender is not to be answered, not even with an error
	calls    int  // tool calls so far
	tokens   int

	// pending waits for the next commit.
	pending store.Commit
}

// begin starts a turn for claimed messages and runs it to its end.
func (r *Runner) begin(ctx context.Context, gen *Generation, policies Policies, c claim) {
	m := c.rows[0].Message
	a := gen.Agents[c.agent]
	now := r.cfg.Now()
	t := &turn{Runner: r, gen: gen, policies: policies, agent: a, origin: m, row: store.Turn{
		ID: store.NewID(now), Session: m.ConversationKey() + ":" + a.Name, Agent: a.Name, Channel: m.Channel,
		Conversation: m.Conversation, Sender: m.SenderKey(), State: store.TurnRunning, Started: now.UTC(),
	}}
	for _, row := range c.rows {
		t.row.Inbox = append(t.row.Inbox, row.ID)
	}
	if !t.load(ctx) {
		return
	}
	t.row.ID = store.NewIDAfter(t.session.last, now) // the conversation is read back in the order of ids
	t.session.last = t.row.ID
	t.pending.Decisions = c.decisions
	t.session.label(roleLabel(gen.Roles.Of(m.Channel, m.SenderKey())))
	said := newUserStep(c.rows)
	said.Generation, said.Labels = gen.Number, t.session.labels
	t.step(store.StepUser, said)
	t.run(ctx)
}

// roleLabel says in the session's labels who has spoken in it, apart from owners: what others said stays in the
// transcript when an owner speaks next.
func roleLabel(role string) []string {
	if role == route.Owner {
		return nil
	}
	return []string{"sender:" + role}
}

// resume runs on a turn of an earlier process from its last committed step. The configuration may have changed since: the
// turn goes on only if the one in force would begin it too.
func (r *Runner) resume(ctx context.Context, gen *Generation, policies Policies, it Item) {
	log := r.cfg.Log.With("turn", it.Turn.ID)
	if len(it.Rows) == 0 { // cannot be: the rows end with the turn
		log.Error("turn has no message to answer")
		return
	}
	a, ok := gen.Agents[it.Turn.Agent]
	t := &turn{Runner: r, gen: gen, policies: policies, agent: a, row: *it.Turn, origin: it.Rows[0].Message}
	if !ok {
		t.agent = &Agent{Name: it.Turn.Agent}
	}
	if !t.load(ctx) {
		return
	}
	steps, err := r.cfg.Store.Steps(ctx, it.Turn.ID)
	if err == nil {
		t.steps, err = decodeTurn(steps)
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		t.fail(ctx, fmt.Errorf("read the turn back: %w", err))
	case !ok:
		t.fail(ctx, plainError(fmt.Sprintf("agent %q is no longer configured", it.Turn.Agent)))
	default:
		t.takeUp()
		if err := t.stillRouted(ctx, it.Rows); err != nil {
			t.fail(ctx, err)
			return
		}
		log.Info("turn resumes", "steps", len(steps))
		t.run(ctx)
	}
}

// takeUp counts what the turn has used, and labels the session with what it has touched.
func (t *turn) takeUp() {
	t.session.label(t.steps.user.Labels)
	for _, e := range t.steps.entries {
		t.calls += len(e.results)
		t.tokens += e.answer.Usage.Input + e.answer.Usage.Output
		for _, r := range e.results {
			t.session.label(r.Result.Labels)
		}
	}
}

// stillRouted makes sure that the messages of a resumed turn would come to its agent now.
func (t *turn) stillRouted(ctx context.Context, rows []store.InboxRow) error {
	for _, row := range rows {
		agent, why, decisions := t.route(ctx, t.gen, t.policies, row.Message)
		t.pending.Decisions = append(t.pending.Decisions, decisions...)
		switch {
		case agent == "":
			t.silent = true
			return fmt.Errorf("nobody answers this message now: %s", why)
		case agent != t.row.Agent:
			return plainError("the host was restarted meanwhile, and your message is routed elsewhere now. Please send it again")
		}
	}
	return nil
}

func (t *turn) load(ctx context.Context) bool {
	s, err := t.sessions.get(ctx, t.row.Session)
	if err != nil {
		if ctx.Err() == nil {
			t.cfg.Log.Error("turn cannot begin", "session", t.row.Session, "error", err)
			t.fail(ctx, plainError("the conversation could not be read back"))
		}
		return false
	}
	t.session = s
	return true
}

// run goes through the steps until the model answers without a call, a limit is hit, or somebody stops it. When ctx
// itself ends, the turn stays running in the store and is resumed by the next process.
func (t *turn) run(ctx context.Context) {
	turnCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.time = newStopwatch(t.gen.Limits.Time, func() { cancel(errTime) })
	defer t.time.pause()
	defer t.register(cancel)()

	t.publish(message.Event{Kind: message.TurnStarted, Text: t.steps.user.text()})
	text, err := t.contained(turnCtx)
	switch cause := context.Cause(turnCtx); {
	case ctx.Err() != nil:
		t.sessions.forget(t.row.Session)
	case errors.Is(err, store.ErrConflict):
		t.cfg.Log.Error("turn was settled elsewhere", "turn", t.row.ID, "error", err)
		t.sessions.forget(t.row.Session)
	case errors.Is(cause, errStopped):
		t.end(ctx, store.TurnStopped, "Stopped.", errStopped)
	case cause != nil:
		t.fail(ctx, cause)
	case err != nil:
		t.fail(ctx, err)
	default:
		t.end(ctx, store.TurnDone, text, nil)
	}
}

// register lets Stop find the turn.
func (t *turn) register(cancel context.CancelCauseFunc) (unregister func()) {
	key := t.origin.ConversationKey()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[key] = cancel
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, key)
	}
}

// contained is loop, in which a bug ends this turn alone.
func (t *turn) contained(ctx context.Context) (text string, err error) {
	defer t.recovered("turn", t.row.ID, func() { err = errBroken })
	return t.loop(ctx)
}

// loop asks the model and runs what it calls, until it answers.
func (t *turn) loop(ctx context.Context) (string, error) {
	for {
		if n := len(t.steps.entries); n > 0 {
			last := t.steps.entries[n-1].answer
			if len(last.Message.Calls) == 0 {
				return last.Message.Text, nil
			}
			if err := t.runCalls(ctx, n-1); err != nil {
				return "", err
			}
		}
		if err := t.within(); err != nil {
			return "", err
		}
		answer, err := t.ask(ctx)
		if err != nil {
			return "", err
		}
		t.tokens += answer.Usage.Input + answer.Usage.Output
		t.step(store.StepModel, answer)
	}
}

// within checks the limits that are counted between steps, and the kill switch.
func (t *turn) within() error {
	l := t.gen.Limits
	switch {
	case t.cfg.Stopped() != "":
		return plainError("everything is stopped: " + t.cfg.Stopped())
	case len(t.steps.entries) >= l.Steps:
		return plainError(fmt.Sprintf("the turn used its %d steps", l.Steps))
	case t.tokens >= l.Tokens:
		return plainError(fmt.Sprintf("the turn used its %d tokens", l.Tokens))
	}
	return nil
}

func (t *turn) ask(ctx context.Context) (model.Response, error) {
	req := model.Request{
		System:   t.agent.System,
		Messages: append(t.session.context(t.agent.Window), t.steps.messages()...),
		Tools:    t.agent.Tools,
		Session:  t.row.Session,
	}
	return t.gen.Models.Stream(ctx, t.agent.Tier, req, func(d model.Delta) {
		kind := message.TextDelta
		if d.Reset {
			kind = message.TextReset
		}
		t.publish(message.Event{Kind: kind, Text: d.Text})
	})
}

// step adds a step to the next commit.
func (t *turn) step(kind store.StepKind, record any) {
	s := store.Step{Turn: t.row.ID, Seq: t.steps.next, Kind: kind, Data: encode(record), At: t.cfg.Now().UTC()}
	if err := t.steps.add(s); err != nil { // our own record
		panic(err)
	}
	t.pending.Steps = append(t.pending.Steps, s)
}

// commit makes what was added durable. It outlives the turn's own context, so that a stop does not lose what was done,
// and tries again while the store has trouble. It waits for as long as the disk takes: a commit that was given up may
// still happen, and the next try would take it for somebody else's.
func (t *turn) commit(ctx context.Context) error {
	t.pending.Turn = t.row
	for {
		err := t.cfg.Store.CommitTurn(context.WithoutCancel(ctx), t.pending)
		if err == nil {
			t.pending = store.Commit{}
			return nil
		}
		if errors.Is(err, store.ErrConflict) {
			return err
		}
		t.cfg.Log.Error("commit turn; trying again", "turn", t.row.ID, "error", err)
		if pause(ctx); ctx.Err() != nil {
			return err
		}
	}
}

// end closes the turn with a reply, in one commit, and hands the reply on.
func (t *turn) end(ctx context.Context, state store.TurnState, text string, cause error) {
	now := t.cfg.Now().UTC()
	t.row.State, t.row.Ended = state, now
	t.pending.InboxState = store.InboxDone
	if cause != nil {
		t.row.Error = cause.Error()
	}
	if state == store.TurnFailed {
		t.pending.InboxState = store.InboxFailed
	}
	reply := message.Reply{
		Key: replyKey(t.row.ID), Channel: t.row.Channel, Conversation: t.row.Conversation, ReplyTo: t.origin.EventID, Text: text,
	}
	if t.silent {
		t.pending.InboxState = store.InboxDropped
	} else {
		t.pending.Replies = []message.Reply{reply}
	}
	if err := t.commit(ctx); err != nil {
		t.sessions.forget(t.row.Session)
		if ctx.Err() == nil {
			t.cfg.Log.Error("turn could not be ended", "turn", t.row.ID, "error", err)
		}
		return
	}
	if t.session != nil {
		t.session.add(&t.steps)
		t.session.count++
	}
	if !t.silent {
		t.publish(message.Event{Kind: outcome(state), Text: text, Key: reply.Key, IsError: state != store.TurnDone})
		t.cfg.Replied(t.row.ID, reply)
	}
	t.publish(message.Event{Kind: message.TurnDone})
	t.cfg.Observe(t.row.Agent, state, now.Sub(t.row.Started))
}

// outcome is the event that carries the reply. Whoever watches hears the words for people; the cause is for the log.
func outcome(state store.TurnState) message.EventKind {
	if state == store.TurnDone {
		return message.ReplyReady
	}
	return message.TurnFailed
}

// fail ends a turn that cannot be answered. The sender is told in words; the log and the store have the cause.
func (t *turn) fail(ctx context.Context, cause error) {
	t.cfg.Log.Error("turn failed", "turn", t.row.ID, "agent", t.row.Agent, "error", cause)
	t.end(ctx, store.TurnFailed, "I could not answer this: "+forPeople(cause), cause)
}

// forPeople puts a cause into words that leave out what only the operator should see.
func forPeople(err error) string {
	var plain plainError
	var e *model.Error
	switch {
	case errors.As(err, &plain):
		return string(plain) + "."
	case !errors.As(err, &e):
		return "something went wrong inside the host. The operator's log says what."
	}
	switch e.Kind {
	case model.RateLimited, model.Overloaded:
		return "the model is too busy right now. Please try again later."
	case model.Timeout, model.Unreachable, model.Cut:
		return "the model could not be reached. Please try again later."
	case model.TooLong:
		return "this conversation has grown too long for the model."
	}
	return "the model refused the request. The operator's log says why."
}

func (t *turn) publish(e message.Event) {
	e.Channel, e.Conversation, e.Turn, e.Agent = t.row.Channel, t.row.Conversation.ID, t.row.ID, t.row.Agent
	t.cfg.Publish(e)
}
