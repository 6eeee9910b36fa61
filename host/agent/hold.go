package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
)

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
func (t *turn) commitSoon(ctx context.Context) error {
	due := time.Now().Add(patience)
	if t.held != nil {
		due = t.held.due
	}
	if err := t.takeBack(); err != nil {
		return err
	}
	t.complete()
	h := &held{commit: t.pending, due: due, done: make(chan error, 1)}
	h.timer = time.AfterFunc(time.Until(due), func() { h.done <- t.put(ctx, h.commit) })
	t.held, t.pending = h, turnlog.Commit{}
	return nil
}

// takeBack puts what is held back before what is pending, or waits for its commit where that is under way.
func (t *turn) takeBack() error {
	h := t.held
	if h == nil {
		return nil
	}
	t.held = nil
	var err error
	if !h.timer.Stop() {
		if err = <-h.done; err == nil {
			return nil
		}
	}
	t.pending = joined(h.commit, t.pending)
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

// letGo commits what is still held back when the turn is left as it is, for the next process.
func (t *turn) letGo(ctx context.Context) {
	h := t.held
	if h == nil {
		return
	}
	t.held = nil
	if h.timer.Stop() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
		defer cancel()
		h.done <- t.cfg.Store.CommitTurn(ctx, h.commit)
	}
	if err := <-h.done; err != nil && !errors.Is(err, store.ErrConflict) {
		t.cfg.Log.Error("cannot keep the result of a call", "turn", t.row.ID, "error", err)
	}
}
