package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/stopwatch"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
)

// Causes for the end of a turn's context.
var (
	errStopped     = errors.New(transcript.StoppedByPerson)
	errHungUp      = stop("the caller hung up")
	errUnheard     = stop("its sender is no longer admitted")
	errInterrupted = errors.New("interrupted by a later message")
	errHalted      = errors.New("stopped by the kill switch")
	errTime        = plainError("the turn took too long")
)

// stop is a cause that ends a turn as a person's stop does, and that blames nobody for it.
type stop string

func (s stop) Error() string { return string(s) }

// Is makes every cause of the kind an errStopped.
func (s stop) Is(target error) bool { return target == errStopped }

// plainError is an error that the sender may read.
type plainError string

func (e plainError) Error() string { return string(e) }

// errBroken is the error that people see for a bug.
var errBroken = plainError("something broke inside the host. The operator's log says what")

// turn is one answer in the making. It belongs to the goroutine that runs it.
type turn struct {
	*Runner
	gen      *Generation
	policies Policies
	agent    *Agent
	session  *session
	row      turnlog.Turn
	origin   message.Message // of the first message: sender, place, door
	state    transcript.State
	voice    voice
	time     *stopwatch.Watch
	place    turnlog.Place
	rest     []Item // of the queue, behind the messages that are answered
	// mayInterrupt is false where a later message has stopped the turn before this one already: it was not to be answered together
	// with the others, and stopping again would lead nowhere.
	mayInterrupt bool
	resumed      bool             // an earlier process began it
	silent       bool             // the sender is not to be answered, not even with an error
	cut          bool             // one of the messages was longer than what was read of it
	elsewhere    transcript.Spent // see transcript.Now
	underWay     []string         // calls that run side by side
	instructed   int              // see instructions; 0 before it is asked for
	view         View             // nil where nobody waits for it
	delegated    *delegated
	host         context.Context // of the whole host, while the turn runs
	// callbacks are what calls that run side by side have done on the turn's own goroutine; nil while none do.
	callbacks chan func()
	uses      uses // of models by the host itself
	// unsummarised is set where a summary could not be had: in this turn none is asked for again.
	unsummarised bool

	// pending waits for the next commit, held for a short time only.
	pending turnlog.Commit
	held    *held
}

// run goes through the steps until the model answers without a call, a limit is hit, or somebody stops it. When ctx
// itself ends, the turn stays running in the store and is resumed by the next process. It returns those of its messages that are left
// to the next turn.
func (t *turn) run(ctx context.Context, rows []mailbox.InboxRow) (released []Item) {
	turnCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.host, t.cut = ctx, slices.ContainsFunc(rows, func(r mailbox.InboxRow) bool { return r.Message.Cut })
	t.time = stopwatch.Start(t.timeLimit(), func() { cancel(errTime) })
	defer t.time.Stop()
	defer t.letGo(ctx)
	defer t.register(cancel)()
	if t.delegated == nil {
		t.view = t.cfg.Views.Show(t.reply(""))
	}
	if t.view != nil {
		defer t.view.Over()
	}

	t.publish(message.Event{Kind: message.TurnStarted, Text: t.state.User.Text(), Answers: t.state.User.Events()})
	text, err := t.contained(turnCtx)
	switch cause := context.Cause(turnCtx); {
	case ctx.Err() != nil:
		t.keepUsage(ctx)
		t.sessions.forget(t.row.Session)
	case errors.Is(err, store.ErrConflict):
		t.cfg.Log.Error("turn was settled elsewhere", "turn", t.row.ID, "error", err)
		t.sessions.forget(t.row.Session)
		t.publish(message.Event{Kind: message.TurnDone})
	case errors.Is(cause, errStopped):
		t.silent = t.silent || errors.Is(cause, errUnheard)
		t.end(ctx, turnlog.TurnStopped, "Stopped.", cause)
	case t.delegated != nil && err != nil && (errors.Is(cause, errInterrupted) || halted(cause, err)): // it has no messages to leave
		t.end(ctx, turnlog.TurnStopped, "Stopped.", cmp.Or(cause, err))
	case errors.Is(cause, errInterrupted) && err == nil: // it came too late
		t.end(ctx, turnlog.TurnDone, text, nil)
	case errors.Is(cause, errInterrupted):
		return t.release(ctx, errInterrupted, rows)
	case halted(cause, err) && len(t.state.Answers) == 0: // nothing was done yet
		return t.release(ctx, errHalted, rows)
	case halted(cause, err):
		t.end(ctx, turnlog.TurnStopped, "Stopped: everything is halted until an owner resumes it.", errHalted)
	case cause != nil:
		t.fail(ctx, cause)
	case err != nil:
		t.fail(ctx, err)
	default:
		t.end(ctx, turnlog.TurnDone, text, nil)
	}
	return nil
}

func halted(cause, err error) bool { return errors.Is(cause, errHalted) || errors.Is(err, errHalted) }

// voice gives the answers of a turn: a model, a program of an agent of kind cli, or the host where a client asks for one call.
type voice interface {
	// repeats reports whether the next answer repeats what is known; see transcript.Now.
	repeats() bool
	// answer adds the next answer to the turn.
	answer(ctx context.Context) error
	// close is called when no more answers are asked for.
	close()
}

// contained is loop, in which a bug ends this turn alone.
func (t *turn) contained(ctx context.Context) (text string, err error) {
	defer t.recovered("turn", t.row.ID, func() { err = errBroken })
	if t.voice, err = t.newVoice(); err != nil {
		return "", err
	}
	defer t.voice.close()
	return t.loop(ctx)
}

func (t *turn) newVoice() (voice, error) {
	if c := t.origin.Call; c != nil && t.delegated == nil {
		return direct{t, *c}, nil
	}
	switch t.agent.Kind {
	case "", KindChat:
		return modelVoice{t}, nil
	case KindCode:
		return modelVoice{t}, t.mayRunCode()
	case KindCLI:
		return t.newCLIVoice(), t.mayRunCLI()
	}
	return nil, plainError(fmt.Sprintf("agents of kind %q cannot be run by this flynn", t.agent.Kind))
}

// loop carries out what transcript.Next says, until the turn has an answer.
func (t *turn) loop(ctx context.Context) (string, error) {
	for {
		var err error
		switch a := transcript.Next(&t.state, t.now(ctx)).(type) {
		case transcript.Finish:
			return a.Text, nil
		case transcript.Fail:
			err = a.Err
		case transcript.Interrupt:
			err = t.pickUp(ctx, a.Start)
		case transcript.Run:
			err = t.runCalls(ctx, a.Calls)
		case transcript.Ask:
			err = t.answer(ctx)
		}
		if err != nil {
			return "", err
		}
	}
}

// answer has the voice answer. What came of calls is made durable meanwhile; a turn that has none writes nothing before its end.
func (t *turn) answer(ctx context.Context) error {
	if len(t.state.Answers) > 0 && len(t.pending.Steps) > 0 {
		if err := t.commitSoon(ctx); err != nil {
			return err
		}
	}
	return t.voice.answer(ctx)
}

// now is what the steps do not say about what comes next.
func (t *turn) now(ctx context.Context) transcript.Now {
	now := transcript.Now{Limits: t.gen.Limits.counted(), Elsewhere: t.elsewhere, Running: t.underWay, Repeats: t.voice.repeats()}
	switch {
	case ended(ctx):
		now.End = context.Cause(ctx)
	case t.cfg.Stopped() != "":
		now.End = errHalted
	}
	return now
}

// spent is what counts for the limits of the turn.
func (t *turn) spent() transcript.Spent { return t.state.Spent().Plus(t.elsewhere) }

// modelVoice is the agent's model.
type modelVoice struct{ *turn }

func (modelVoice) repeats() bool { return false }

func (modelVoice) close() {}

func (v modelVoice) answer(ctx context.Context) error {
	req, err := v.fit(ctx)
	if err != nil {
		return err
	}
	answer, err := v.ask(ctx, req)
	if err != nil {
		return err
	}
	v.step(answer)
	return nil
}

// usage is what the session has used up to now, with this turn's part.
func (t *turn) usage() policy.Usage {
	u := t.session.used
	u.Join(t.state.Used())
	return policyUsage(u, t.session.count, t.cfg.Now())
}

// keepUsage commits what was paid for steps that are not: the next process takes those anew, and pays again.
func (t *turn) keepUsage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
	defer cancel()
	_, _, paid := t.uses.take()
	if err := t.cfg.Store.AddUsage(ctx, append(t.pending.Usage, paid...)); err != nil {
		t.cfg.Log.Error("cannot record usage", "turn", t.row.ID, "error", err)
	}
}

// usageTimeout bounds a commit at the end of the host, which waits for it.
const usageTimeout = 5 * time.Second

// step adds a step to the next commit.
func (t *turn) step(record any) {
	t.pending.Steps = append(t.pending.Steps, t.state.Add(t.row.ID, t.cfg.Now().UTC(), record))
}

// commit makes what was added durable. It outlives the turn's own context, so that a stop does not lose what was done,
// and tries again while the store has trouble. It waits for as long as the disk takes: a commit that was given up may
// still happen, and the next try would take it for somebody else's.
func (t *turn) commit(ctx context.Context) error {
	if err := t.takeBack(); err != nil {
		return err
	}
	t.complete()
	err := t.put(ctx, t.pending)
	if err == nil {
		t.pending = turnlog.Commit{}
	}
	return err
}

// complete makes a whole commit of what is pending.
func (t *turn) complete() {
	t.recordUses()
	t.pending.Turn = t.row
}

// put tries until the store has taken a commit. It may be beside the turn, and touches nothing of it that changes.
func (t *turn) put(ctx context.Context, c turnlog.Commit) error {
	for {
		err := t.cfg.Store.CommitTurn(context.WithoutCancel(ctx), c)
		if err == nil || errors.Is(err, store.ErrConflict) {
			return err
		}
		t.cfg.Log.Error("commit turn; trying again", "turn", c.Turn.ID, "error", err)
		if pause(ctx); ctx.Err() != nil {
			return err
		}
	}
}

func (t *turn) publish(e message.Event) {
	if t.delegated != nil {
		t.shown(e)
		return
	}
	e.Channel, e.Conversation, e.Turn, e.Agent = t.row.Channel, t.row.Conversation.ID, t.row.ID, t.row.Agent
	t.cfg.Events.Publish(e)
	if t.view != nil {
		t.view.Event(e)
	}
}
