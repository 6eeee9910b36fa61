package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store"
)

// lookEvery is the time between two looks for expired data. The first look is at the start, so that data also expires on a host that
// never runs for an hour.
const lookEvery = time.Hour

// Run deletes expired data until ctx ends, by the configuration in force.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	k.recordUndos(ctx)
	k.Look(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.deleted:
			k.clear(ctx)
		case now := <-tick.C:
			k.Look(ctx, now)
		}
	}
}

// Look deletes what has expired at now. Failures are logged, and the next look tries again.
func (k *Keeper) Look(ctx context.Context, now time.Time) {
	k.deleteOld(ctx, now)
	k.prune(ctx, now)
	k.clear(ctx)
}

// deleteOld deletes the sessions that were silent for as long as the configuration says. A busy session is left to the next look.
func (k *Keeper) deleteOld(ctx context.Context, now time.Time) {
	days := k.Retention().SessionsDays
	if days == 0 {
		return
	}
	list, err := k.Store.Sessions(ctx, math.MaxInt32)
	for _, s := range list {
		if !s.Last.Before(keptSince(days, now)) || k.Turns.Running(s.Key.Parse().Scope) {
			continue
		}
		if failed := k.delete(ctx, turnlog.Deletion{Key: s.Key, At: now.UTC()}, false); !errors.Is(failed, store.ErrConflict) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("cannot delete expired sessions", "error", err)
	}
}

// prune deletes the expired rows of the store.
func (k *Keeper) prune(ctx context.Context, now time.Time) {
	gone, err := k.Store.Prune(ctx, retention(k.Retention(), now))
	if len(gone) > 0 {
		k.Log.Info("pruned expired rows", "rows", gone)
	}
	if err == nil {
		err = k.Pairings.Prune(ctx)
	}
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("cannot prune expired rows", "error", err)
	}
}

// clear removes the files of deleted sessions, and shrinks the store's file after deletions.
func (k *Keeper) clear(ctx context.Context) {
	if err := k.dropMedia(ctx); err != nil && ctx.Err() == nil {
		k.Log.Warn("cannot remove the files of deleted sessions", "error", err)
	}
	freed, err := k.Store.Shrink(ctx)
	if freed > 0 {
		k.Log.Info("the store's file shrank", "bytes", freed)
	}
	if err != nil && ctx.Err() == nil {
		k.Log.Warn("cannot shrink the store's file", "error", err)
	}
}

// dropMedia removes the files of deleted sessions that no other session uses. A file that was requested a moment ago is left to the
// next look.
func (k *Keeper) dropMedia(ctx context.Context) error {
	left, err := k.Store.ListLeftovers(ctx, turnlog.LeftMedia)
	for _, l := range left {
		err = errors.Join(err, k.dropFile(ctx, l))
	}
	return err
}

func (k *Keeper) dropFile(ctx context.Context, l turnlog.Leftover) error {
	done, err := k.Store.NamedInSteps(ctx, l.Name) // then another session uses it
	if err == nil && !done {
		done, err = k.Media.Drop(ctx, l.Name)
	}
	if err == nil && done {
		err = k.Store.DropLeftover(ctx, l)
	}
	return err
}

// keptBlobs is how long files that hosts have given each other are kept in the store after their last use. An upload has to be faster.
const keptBlobs = 24 * time.Hour

// retention keeps that many whole days besides the present one, so that daily budgets never lose part of a day.
func retention(c config.Retention, now time.Time) store.Retention {
	upTo := func(days int) time.Time {
		if days == 0 {
			return time.Time{}
		}
		return keptSince(days, now)
	}
	return store.Retention{
		Blobs:   now.Add(-keptBlobs),
		Said:    upTo(c.SessionsDays),
		Results: upTo(c.ResultsDays), Decisions: upTo(c.DecisionsDays), Audit: upTo(c.AuditDays), Usage: upTo(c.UsageDays),
	}
}

func keptSince(days int, now time.Time) time.Time {
	return now.Add(-time.Duration(days+1) * 24 * time.Hour)
}

// MoveWorkspaces renames the workspaces below root of sessions whose keys a migration of the store has changed. It must run before
// anything else.
func MoveWorkspaces(ctx context.Context, s turnlog.Leftovers, root string) error {
	left, err := s.ListLeftovers(ctx, turnlog.LeftMoved)
	for _, l := range left {
		var workspaces [2]string
		if err == nil {
			err = json.Unmarshal([]byte(l.Name), &workspaces)
		}
		if err == nil {
			err = workspace.Rename(root, workspaces[0], workspaces[1])
		}
		if err == nil {
			err = s.DropLeftover(ctx, l)
		}
	}
	if err != nil {
		return fmt.Errorf("rename workspaces after their sessions: %w", err)
	}
	return nil
}
