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
	"github.com/flynnhost/flynn/host/internal/stopwatch"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Causes of the end of a turn's context.
var (
	errStopped     = errors.New(transcript.StoppedByPerson)
	errHungUp      = stop("the caller hung up")
	errUnheard     = stop("its sender is no longer admitted")
	errInterrupted = errors.New("interrupted by a later message")
	errHalted      = errors.New("stopped by the kill switch")
	errTime        = plainError("the turn took too long")
)

// stop is a cause that ends a turn like a person's stop, without an error message.
type stop string

func (s stop) Error() string { return string(s) }

// Is makes every stop an errStopped.
func (s stop) Is(target error) bool { return target == errStopped }

// plainError is an error whose text the sender may read.
type plainError string

func (e plainError) Error() string { return string(e) }

// errBroken is the error shown to people for a bug.
var errBroken = plainError("something broke inside the host. The operator's log says what")

// turn is one running turn. It belongs to the goroutine that runs it.
type turn struct {
	*Runner
	*recorder
	*publisher
	*identity
	*bounds
	voice voice
	calls *caller
	scope turnlog.Scope
	rest  []Item // queued items behind the answered messages
	// mayInterrupt is false if a later message has stopped an earlier turn already and the messages could not be answered together;
	// stopping again would not help.
	mayInterrupt bool
	resumed      bool            // begun by an earlier process
	silent       bool            // send nothing to the sender, not even an error
	cut          bool            // one of the messages was cut
	toldFiles    int             // notes about files that it was told
	host         context.Context // the host's context, while the turn runs
}

// newTurn returns a turn that has not begun; load sets its session. d is nil unless the turn is delegated.
func (r *Runner) newTurn(gen *Generation, policies Policies, a *Agent, origin message.Message, row turnlog.Turn, d *delegated) *turn {
	rec := &recorder{store: r.cfg.Store, log: r.cfg.Log, clock: r.cfg.Now, row: row}
	b := &bounds{limits: gen.Limits, stopped: r.cfg.Stopped}
	p := &publisher{events: r.cfg.Events, of: &rec.row, child: d != nil}
	if d != nil && d.parent != nil {
		b.above, p.above = d.parent.bounds, d.parent.publisher
	}
	return &turn{Runner: r, recorder: rec, publisher: p, bounds: b, identity: &identity{
		machines: r.cfg.Machines, elevations: r.cfg.Elevations, gen: gen, policies: policies, agent: a, origin: origin, delegated: d, record: rec, bounds: b,
	}}
}

// run works through the steps until the model answers without a call, a limit is reached, or somebody stops the turn. If ctx ends, the
// turn stays running in the store and the next process resumes it. run returns the messages that are left to the next turn.
func (t *turn) run(ctx context.Context, rows []mailbox.InboxRow) (released []Item) {
	turnCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.host, t.cut = ctx, slices.ContainsFunc(rows, func(r mailbox.InboxRow) bool { return r.Message.Cut })
	t.time = stopwatch.Start(t.timeLimit(), func() { cancel(errTime) })
	defer t.time.Stop()
	defer func() {
		if t.settled.Load() {
			t.holdings.doubt(store.ConversationOwner(t.row.ConversationKey()))
		}
	}()
	defer t.settleFiles(ctx)
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
	case store.Settled(err):
		t.cfg.Log.Error("turn was settled elsewhere", "turn", t.row.ID, "error", err)
		t.sessions.forget(t.row.Session)
		t.publish(message.Event{Kind: message.TurnDone})
	case errors.Is(cause, errStopped):
		t.silent = t.silent || errors.Is(cause, errUnheard)
		t.end(ctx, turnlog.TurnStopped, "Stopped.", cause)
	case t.delegated != nil && err != nil && (errors.Is(cause, errInterrupted) || halted(cause, err)): // a delegated turn has no messages to release
		t.end(ctx, turnlog.TurnStopped, "Stopped.", cmp.Or(cause, err))
	case errors.Is(cause, errInterrupted) && err == nil: // the interruption came too late
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

// voice produces the answers of a turn: a model, an agent CLI, or the host for a client's direct call.
type voice interface {
	// repeats reports whether the next answer repeats a known text; see transcript.Now.
	repeats() bool
	// answer adds the next answer to the turn.
	answer(ctx context.Context) error
	// close releases the voice after the last answer.
	close()
}

// contained calls loop and turns a panic into an error of this turn.
func (t *turn) contained(ctx context.Context) (text string, err error) {
	defer recovered(t.log, "turn", t.row.ID, func() { err = errBroken })
	if t.voice, err = t.newVoice(ctx); err != nil {
		return "", err
	}
	defer t.voice.close()
	t.calls = t.newCaller()
	return t.loop(withTurn(ctx, t))
}

func (t *turn) newVoice(ctx context.Context) (voice, error) {
	if c := t.origin.Call; c != nil && t.delegated == nil {
		return direct{t.recorder, *c}, nil
	}
	switch t.agent.Kind {
	case "", KindChat:
		return t.newModelVoice(), nil
	case KindCode:
		return t.newModelVoice(), t.agent.Programs.mayRun(ctx)
	case KindCLI:
		v := t.newCLIVoice()
		return v, v.mayRun()
	}
	return nil, plainError(fmt.Sprintf("this Flynn cannot run agents of kind %q", t.agent.Kind))
}

// loop carries out what transcript.Next returns until the turn has an answer.
func (t *turn) loop(ctx context.Context) (string, error) {
	for {
		now := t.now(ctx)
		now.Repeats = t.voice.repeats()
		var err error
		switch a := transcript.Next(&t.state, now).(type) {
		case transcript.Finish:
			return a.Text, nil
		case transcript.Fail:
			err = a.Err
		case transcript.Interrupt:
			err = t.pickUp(ctx, a.Start)
		case transcript.Run:
			err = t.calls.run(ctx, a.Calls)
		case transcript.Ask:
			err = t.answer(ctx)
		}
		if err != nil {
			return "", err
		}
	}
}

// answer gets the next answer from the voice. Results of earlier calls are committed meanwhile; a turn without any writes nothing
// before its end.
func (t *turn) answer(ctx context.Context) error {
	if len(t.state.Answers) > 0 && len(t.pending.Steps) > 0 {
		if err := t.commitSoon(ctx); err != nil {
			return err
		}
	}
	return t.voice.answer(ctx)
}

// ended reports whether the turn was ended for good, rather than by the host going down.
func ended(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStopped) || errors.Is(cause, errTime) || errors.Is(cause, errInterrupted) || errors.Is(cause, errHalted)
}
