package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// stopPause is the time between two attempts to stop what runs in a place.
const stopPause = 50 * time.Millisecond

// Delete deletes a session. It fails with store.ErrConflict while an answer is being made in its place, unless stop ends that first, and
// with store.ErrNotFound for a session that is not there.
func (k *Keeper) Delete(ctx context.Context, key, by string, stop bool) error {
	place := message.ParseSession(key).Place
	for {
		if err := k.idle(place); err != nil && !stop {
			return err
		}
		err := k.delete(ctx, turnlog.Deletion{Key: key, By: by, At: time.Now().UTC()}, stop)
		if errors.Is(err, store.ErrNotFound) {
			return store.NotFound(fmt.Sprintf("no session %q (run \"flynn session list\")", key))
		}
		if !stop || !errors.Is(err, store.ErrConflict) {
			return err
		}
		select { // a delegated turn ends in a queue of its own
		case <-time.After(stopPause):
		case <-ctx.Done():
			return err
		}
	}
}

// DeleteConversation deletes the sessions of a place that is one conversation, and ends elevated mode there. Its errors are those of Delete.
func (k *Keeper) DeleteConversation(ctx context.Context, place, by string, stop bool) error {
	if err := k.idle(place); err != nil {
		if !stop {
			return err
		}
		if err := k.alone(ctx, place, true, func() error { return nil }); err != nil { // the first turn makes the session when it ends
			return err
		}
	}
	list, err := k.Store.PlaceSessions(ctx, place)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return store.NotFound("nothing is kept of " + place)
	}
	if _, err := k.Elevations.End(ctx, message.ConversationKey(place), by, "the conversation was deleted"); err != nil {
		return err
	}
	for _, s := range list {
		if err := k.Delete(ctx, s.Key, by, stop); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Deleted removes what sessions that the store has deleted have outside of it. No turn may run in their place.
func (k *Keeper) Deleted(ctx context.Context, keys []string) {
	homes := map[string]bool{}
	for _, key := range keys {
		k.Turns.Forget(key)
		homes[message.ParseSession(key).Home()] = true
		k.Log.Info("session deleted", "session", key)
	}
	if err := k.Sandboxes.Forget(ctx, homes); err != nil {
		k.Log.Warn("cannot remove a deleted session from the engine yet; trying again later", "error", err)
	}
	select {
	case k.deleted <- struct{}{}:
	default: // a look is due in any case
	}
}

// idle refuses while something runs in a place.
func (k *Keeper) idle(place string) error {
	if k.Turns.Running(place) || k.Turns.Delegated(place) {
		return store.Conflict(fmt.Sprintf("an answer is being made in %s: wait for it, or have it stopped (flynn session delete --stop)", place))
	}
	return nil
}

func (k *Keeper) delete(ctx context.Context, d turnlog.Deletion, stop bool) error {
	return k.alone(ctx, message.ParseSession(d.Key).Place, stop, func() error {
		ctx := context.WithoutCancel(ctx)
		if err := k.Store.DeleteSession(ctx, d); err != nil {
			return err
		}
		k.Deleted(ctx, []string{d.Key})
		return nil
	})
}

// alone calls do when nothing else runs in a place. With stop, it ends what runs there and what begins before it.
func (k *Keeper) alone(ctx context.Context, place string, stop bool, do func() error) error {
	done := make(chan error, 1)
	k.Queue.Alone(place, func() {
		err := ctx.Err()
		if err == nil {
			err = do()
		}
		done <- err
	})
	again := time.NewTicker(stopPause)
	defer again.Stop()
	for {
		if stop && len(done) == 0 {
			k.Turns.Stop(place)
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
