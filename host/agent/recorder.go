package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// committer is the part of the store that a recorder uses.
type committer interface {
	CommitTurn(ctx context.Context, c turnlog.Commit) error
	AddUsage(ctx context.Context, rows []usage.Row) error
}

// recorder collects the steps of a turn and commits them. It belongs to the turn's goroutine.
type recorder struct {
	store committer
	log   *slog.Logger
	clock func() time.Time

	row       turnlog.Turn
	state     transcript.State
	pending   turnlog.Commit // the next one
	held      *held
	taskUsage taskUsage   // model usage of the host itself
	settled   atomic.Bool // a commit has found the turn or a message of it settled
}

// step adds a step to the next commit.
func (r *recorder) step(record any) {
	r.pending.Steps = append(r.pending.Steps, r.state.Add(r.row.ID, r.clock().UTC(), record))
}

// decided adds the decision about a call, and the policy answers behind it, to the next commit.
func (r *recorder) decided(c model.ToolCall, v tool.Decision) {
	now := r.clock()
	r.pending.Decisions = append(r.pending.Decisions, decisionlog.Rows(now, v.Records)...)
	r.pending.Decisions = append(r.pending.Decisions, journal.Decision{
		At: now, Kind: "enforce", Policy: "host", Digest: v.Policy, Answer: fmt.Sprintf("%s %s", v.Action, v.Where),
		Reason: fmt.Sprintf("%s: %q", c.Name, v.Reasons),
	})
}

// violated adds the violations of a program to the decision log.
func (r *recorder) violated(result transcript.ToolResult) {
	for _, v := range result.Result.Violations {
		r.pending.Decisions = append(r.pending.Decisions, journal.Decision{
			At: r.clock(), Kind: "violation", Policy: "host", Answer: "contained", Reason: result.Tool + ": " + v,
		})
	}
}

// commit makes pending steps durable. It ignores the cancellation of the turn's context, so that a stop does not lose what was done,
// and retries while the store fails. It has no deadline: a commit that was given up may still happen, and the retry would then find a
// conflict with itself.
func (r *recorder) commit(ctx context.Context) error {
	if err := r.takeBack(); err != nil {
		return err
	}
	r.complete()
	err := r.put(ctx, r.pending)
	if err == nil {
		r.pending = turnlog.Commit{}
	}
	return err
}

// complete adds steps for the tasks that ran since the last commit. Their usage counts for the session, but not towards the turn's
// limits.
func (r *recorder) complete() {
	list, kept, paid := r.taskUsage.take()
	for i := range paid { // here, because tasks may run on other goroutines
		paid[i].Step = r.state.Steps()
	}
	r.pending.Usage = append(r.pending.Usage, paid...)
	for _, u := range list {
		r.step(u)
	}
	r.pending.Results = append(r.pending.Results, kept...)
	r.pending.Turn = r.row
}

// put retries until the store has taken a commit. It may run on another goroutine and reads only constant parts of the turn.
func (r *recorder) put(ctx context.Context, c turnlog.Commit) error {
	for {
		err := r.store.CommitTurn(context.WithoutCancel(ctx), c)
		if err == nil {
			return nil
		}
		if store.Settled(err) {
			r.settled.Store(true)
			return err
		}
		r.log.Error("cannot commit turn; trying again", "turn", c.Turn.ID, "error", err)
		if pause(ctx); ctx.Err() != nil {
			return err
		}
	}
}

// patience is how long a result is held back so that it can be committed together with what follows. If the host dies meanwhile, it is
// as if it had died before the commit: the start of the call is durable, so the next process reports it as interrupted and does not run
// it again. Models take longer than this to answer, so the result is nearly always durable by then.
const patience = 5 * time.Millisecond

// held is a commit that waits briefly for the next one of its turn.
type held struct {
	commit turnlog.Commit
	due    time.Time
	timer  *time.Timer
	done   chan error // of the commit, if the timer fired first
}

// commitSoon commits pending steps after patience, or with the next commit if that comes first. An error is returned by the next
// commit.
func (r *recorder) commitSoon(ctx context.Context) error {
	due := time.Now().Add(patience)
	if r.held != nil {
		due = r.held.due
	}
	if err := r.takeBack(); err != nil {
		return err
	}
	r.complete()
	h := &held{commit: r.pending, due: due, done: make(chan error, 1)}
	h.timer = time.AfterFunc(time.Until(due), func() { h.done <- r.put(ctx, h.commit) })
	r.held, r.pending = h, turnlog.Commit{}
	return nil
}

// takeBack merges the held commit into the pending one. If it is being written already, takeBack waits for it.
func (r *recorder) takeBack() error {
	h := r.held
	if h == nil {
		return nil
	}
	r.held = nil
	var err error
	if !h.timer.Stop() {
		if err = <-h.done; err == nil {
			return nil
		}
	}
	r.pending = joined(h.commit, r.pending)
	return err
}

// joined merges two commits of a turn.
func joined(first, next turnlog.Commit) turnlog.Commit {
	next.Steps = slices.Concat(first.Steps, next.Steps)
	next.Decisions = slices.Concat(first.Decisions, next.Decisions)
	next.Replies = slices.Concat(first.Replies, next.Replies)
	next.Usage = slices.Concat(first.Usage, next.Usage)
	next.Told = slices.Concat(first.Told, next.Told)
	next.Results = slices.Concat(first.Results, next.Results)
	next.InboxState = cmp.Or(next.InboxState, first.InboxState)
	next.Summary = cmp.Or(next.Summary, first.Summary)
	next.Extract = next.Extract || first.Extract
	return next
}

// usageTimeout bounds a commit during shutdown.
const usageTimeout = 5 * time.Second

// letGo commits what is held back when the turn is left to the next process.
func (r *recorder) letGo(ctx context.Context) {
	h := r.held
	if h == nil {
		return
	}
	r.held = nil
	if h.timer.Stop() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
		defer cancel()
		h.done <- r.store.CommitTurn(ctx, h.commit)
	}
	if err := <-h.done; err != nil && !store.Settled(err) {
		r.log.Error("cannot keep the result of a call", "turn", r.row.ID, "error", err)
	}
}

// keepUsage commits the usage of steps that are not committed. The next process repeats these steps and pays again.
func (r *recorder) keepUsage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
	defer cancel()
	_, _, paid := r.taskUsage.take()
	if err := r.store.AddUsage(ctx, append(r.pending.Usage, paid...)); err != nil {
		r.log.Error("cannot record usage", "turn", r.row.ID, "error", err)
	}
}
