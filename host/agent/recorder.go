package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// committer is what a recorder asks of the store.
type committer interface {
	CommitTurn(ctx context.Context, c turnlog.Commit) error
	AddUsage(ctx context.Context, rows []usage.Row) error
}

// recorder has the steps of a turn and makes them durable. It belongs to the goroutine that runs the turn.
type recorder struct {
	store committer
	log   *slog.Logger
	clock func() time.Time

	row   turnlog.Turn
	state transcript.State
	// pending waits for the next commit, held for a short time only.
	pending turnlog.Commit
	held    *held
	uses    uses // of models by the host itself
}

// step adds a step to the next commit.
func (r *recorder) step(record any) {
	r.pending.Steps = append(r.pending.Steps, r.state.Add(r.row.ID, r.clock().UTC(), record))
}

// decided adds what was decided about a call, and what led to it, to the next commit.
func (r *recorder) decided(c model.ToolCall, v tool.Decision) {
	now := r.clock()
	r.pending.Decisions = append(r.pending.Decisions, decisionlog.Rows(now, v.Records)...)
	r.pending.Decisions = append(r.pending.Decisions, journal.Decision{
		At: now, Kind: "enforce", Policy: "host", Digest: v.Policy, Answer: fmt.Sprintf("%s %s", v.Action, v.Where),
		Reason: fmt.Sprintf("%s: %q", c.Name, v.Reasons),
	})
}

// violated adds what a program was kept from to the decision log.
func (r *recorder) violated(result transcript.ToolResult) {
	for _, v := range result.Result.Violations {
		r.pending.Decisions = append(r.pending.Decisions, journal.Decision{
			At: r.clock(), Kind: "violation", Policy: "host", Answer: "contained", Reason: result.Tool + ": " + v,
		})
	}
}

// commit makes what was added durable. It outlives the turn's own context, so that a stop does not lose what was done,
// and tries again while the store has trouble. It waits for as long as the disk takes: a commit that was given up may
// still happen, and the next try would take it for somebody else's.
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

// complete makes a whole commit of what is pending, with steps for the tasks that ran since the last one. The session has used what they
// took; the turn's own limit is about its agent's calls.
func (r *recorder) complete() {
	list, kept, paid := r.uses.take()
	for i := range paid { // here, since a task may run beside the turn's own goroutine
		paid[i].Step = r.state.Steps()
	}
	r.pending.Usage = append(r.pending.Usage, paid...)
	for _, u := range list {
		r.step(u)
	}
	r.pending.Results = append(r.pending.Results, kept...)
	r.pending.Turn = r.row
}

// put tries until the store has taken a commit. It may be beside the turn, and touches nothing of it that changes.
func (r *recorder) put(ctx context.Context, c turnlog.Commit) error {
	for {
		err := r.store.CommitTurn(context.WithoutCancel(ctx), c)
		if err == nil || errors.Is(err, store.ErrConflict) {
			return err
		}
		r.log.Error("commit turn; trying again", "turn", c.Turn.ID, "error", err)
		if pause(ctx); ctx.Err() != nil {
			return err
		}
	}
}

// patience is how long what came of a call is held back, so that it is committed together with what follows. A host that dies meanwhile
// is one that died before the commit: the call's start is durable, so the next process says that it was interrupted, and does not run it
// again. Models take longer to answer, so that next to nothing is held back when they do.
const patience = 5 * time.Millisecond

// held is a commit that waits a little for the next one of its turn.
type held struct {
	commit turnlog.Commit
	due    time.Time
	timer  *time.Timer
	done   chan error // of the commit, where the timer was first
}

// commitSoon makes what was added durable within patience, or with the next commit if that comes before. What goes wrong is the error of
// the next commit.
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

// takeBack puts what is held back before what is pending, or waits for its commit where that is under way.
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

// joined are two commits of a turn as one.
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

// usageTimeout bounds a commit at the end of the host, which waits for it.
const usageTimeout = 5 * time.Second

// letGo commits what is still held back when the turn is left as it is, for the next process.
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
	if err := <-h.done; err != nil && !errors.Is(err, store.ErrConflict) {
		r.log.Error("cannot keep the result of a call", "turn", r.row.ID, "error", err)
	}
}

// keepUsage commits what was paid for steps that are not: the next process takes those anew, and pays again.
func (r *recorder) keepUsage(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
	defer cancel()
	_, _, paid := r.uses.take()
	if err := r.store.AddUsage(ctx, append(r.pending.Usage, paid...)); err != nil {
		r.log.Error("cannot record usage", "turn", r.row.ID, "error", err)
	}
}
