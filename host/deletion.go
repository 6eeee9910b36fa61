package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// A session is deleted in the lane of its place, where no turn runs meanwhile: first in the store, in one transaction that also notes what
// the store cannot remove, then on the engine and among the files. What a crash, or an engine that is away, leaves of the second part is
// done at the next start, or when the engine is back.

// alone runs do when nothing else runs in a place. With stop, what runs and what begins before it is stopped.
func (h *Host) alone(ctx context.Context, place string, stop bool, do func() error) error {
	done := make(chan error, 1)
	h.lanes.Push(place, agent.Item{Alone: func() {
		err := ctx.Err()
		if err == nil {
			err = do()
		}
		done <- err
	}})
	again := time.NewTicker(stopPause)
	defer again.Stop()
	for {
		if stop && len(done) == 0 {
			h.runner.Stop(place)
		}
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait until nothing else runs in %s: %w", place, ctx.Err())
		case <-again.C: // a message that waited may be answered by now
		}
	}
}

// stopPause is how long a deletion waits for what it has stopped before it stops again.
const stopPause = 50 * time.Millisecond

// DeleteSession implements gateway.Sessions.
func (b backend) DeleteSession(ctx context.Context, key, by string, stop bool) error {
	place, _, _ := store.SessionParts(key)
	for {
		if err := b.idle(place); err != nil && !stop {
			return err
		}
		err := b.h.deleteSession(ctx, store.Deletion{Key: key, By: by, At: time.Now().UTC()}, stop)
		if errors.Is(err, store.ErrNotFound) {
			return worded{fmt.Sprintf("no session %q (run \"flynn session list\")", key), err}
		}
		if !stop || !errors.Is(err, store.ErrConflict) {
			return err
		}
		select { // a delegated turn comes to its end in a lane of its own
		case <-time.After(stopPause):
		case <-ctx.Done():
			return err
		}
	}
}

// idle refuses while something runs in a place.
func (b backend) idle(place string) error {
	if b.h.runner.Running(place) || b.h.runner.Delegated(place) {
		return worded{fmt.Sprintf("an answer is being made in %s: wait for it, or have it stopped (flynn session delete --stop)", place), store.ErrConflict}
	}
	return nil
}

var _ gateway.Conversations = backend{}

// DeleteConversation implements gateway.Conversations for the doors of this machine, where a conversation is a place.
func (b backend) DeleteConversation(ctx context.Context, channel, conversation, by string, stop bool) error {
	place := channel + ":" + conversation
	if !slices.Contains(config.OwnDoors(), channel) {
		return worded{fmt.Sprintf("%s is no conversation of this machine: write /delete in it", place), store.ErrNotFound}
	}
	if err := b.idle(place); err != nil {
		if !stop {
			return err
		}
		if err := b.h.alone(ctx, place, true, func() error { return nil }); err != nil { // the first turn makes the session when it ends
			return err
		}
	}
	list, err := b.h.store.PlaceSessions(ctx, place)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return worded{"nothing is kept of " + place, store.ErrNotFound}
	}
	if _, err := b.h.elevated.End(ctx, place, by, "the conversation was deleted"); err != nil {
		return err
	}
	for _, s := range list {
		if err := b.DeleteSession(ctx, s.Key, by, stop); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// worded is an error in words for people.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.err }

func (h *Host) deleteSession(ctx context.Context, d store.Deletion, stop bool) error {
	place, _, _ := store.SessionParts(d.Key)
	return h.alone(ctx, place, stop, func() error {
		ctx := context.WithoutCancel(ctx)
		if err := h.store.DeleteSession(ctx, d); err != nil {
			return err
		}
		h.deleted(ctx, []string{d.Key})
		return nil
	})
}

// deleted removes what sessions that were deleted have outside of the store. No turn runs in their place.
func (h *Host) deleted(ctx context.Context, keys []string) {
	homes := map[string]bool{}
	for _, key := range keys {
		h.runner.Forget(key)
		homes[store.SessionHome(key)] = true
		h.log.Info("session deleted", "session", key)
	}
	if err := h.fleet.Forget(ctx, homes); err != nil {
		h.log.Warn("cannot remove a deleted session from the engine yet; trying again later", "error", err)
	}
	select {
	case h.swept <- struct{}{}:
	default: // a look is due in any case
	}
}

// sessionsIn are the sessions of a place, and whether something that was delegated there runs.
func (h *Host) sessionsIn(ctx context.Context, place string) ([]store.Session, bool, error) {
	list, err := h.store.PlaceSessions(ctx, place)
	return list, h.runner.Delegated(place), err
}

// moveWorkspaces renames the folders of sessions whose keys a migration of the store has changed. Nothing runs yet.
func (h *Host) moveWorkspaces(ctx context.Context) error {
	left, err := h.store.ListLeftovers(ctx, store.LeftMoved)
	for _, l := range left {
		var homes [2]string
		if err == nil {
			err = json.Unmarshal([]byte(l.Name), &homes)
		}
		if err == nil {
			err = workspace.Rename(h.fleet.Folders().Workspaces, homes[0], homes[1])
		}
		if err == nil {
			err = h.store.DropLeftover(ctx, l)
		}
	}
	if err != nil {
		return fmt.Errorf("move workspaces to the names that their sessions have now: %w", err)
	}
	return nil
}

// dropMedia removes the files of deleted sessions that no other one has. What was asked for a moment ago is looked at again.
func (h *Host) dropMedia(ctx context.Context) {
	left, err := h.store.ListLeftovers(ctx, store.LeftMedia)
	for _, l := range left {
		err = errors.Join(err, h.dropFile(ctx, l))
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("cannot remove the files of deleted sessions", "error", err)
	}
}

func (h *Host) dropFile(ctx context.Context, l store.Leftover) error {
	gone, err := h.store.NamedInSteps(ctx, l.Name) // then it is another session's
	if err == nil && !gone {
		gone, err = h.media.Drop(ctx, l.Name)
	}
	if err == nil && gone {
		err = h.store.DropLeftover(ctx, l)
	}
	return err
}

// deleteOld deletes the sessions in which nothing was said for as long as the configuration says. One that is busy after all is left to
// the next look.
func (h *Host) deleteOld(ctx context.Context, now time.Time) {
	days := h.current.Load().config.Retention.SessionsDays
	if days == 0 {
		return
	}
	list, err := h.store.Sessions(ctx, math.MaxInt32)
	for _, s := range list {
		place, _, _ := store.SessionParts(s.Key)
		if !s.Last.Before(keptSince(days, now)) || h.runner.Running(place) {
			continue
		}
		if failed := h.deleteSession(ctx, store.Deletion{Key: s.Key, At: now.UTC()}, false); !errors.Is(failed, store.ErrConflict) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("cannot delete expired sessions", "error", err)
	}
}

// DeleteSession removes a session while no host runs, and with the last one of its home what that has on the engine: containers, and
// volumes with what is in them. Its workspace stays. left is why the engine has something still, which the next start removes; files that
// were sent are removed then in any case.
func DeleteSession(ctx context.Context, c *config.Config, key, by string) (left, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.DeleteSession(ctx, store.Deletion{Key: key, By: by, At: time.Now().UTC()})
	if err == nil {
		left = forgetAtRest(ctx, c, s, store.Leftover{Kind: store.LeftHome, Name: store.SessionHome(key)})
	}
	return left, err
}

func forgetAtRest(ctx context.Context, c *config.Config, rows *sqlite.Store, home store.Leftover) error {
	gone, err := rows.ListLeftovers(ctx, store.LeftHome)
	if err != nil || !slices.Contains(gone, home) {
		return err
	}
	err = fleet.FoldersOf(c.Store.Dir).RemoveHome(home.Name)
	if err != nil || !c.Sandbox.Enabled {
		return err
	}
	s, err := sandboxes.Open(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fleet.ForgetTimeout)
	defer cancel()
	if err := errors.Join(s.Forget(ctx, home.Name), s.Driver.Close()); err != nil {
		return err
	}
	return rows.DropLeftover(ctx, home)
}
