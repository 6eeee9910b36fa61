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

// stopPause is the time between two attempts to stop a turn.
const stopPause = 50 * time.Millisecond

// Delete deletes a session. It fails with store.ErrConflict while a turn runs in its scope, unless stop ends that first, and with
// store.ErrNotFound if there is no such session.
func (k *Keeper) Delete(ctx context.Context, key message.SessionKey, by string, stop bool) error {
	scope := key.Parse().Scope
	for {
		if err := k.idle(scope); err != nil && !stop {
			return err
		}
		err := k.delete(ctx, turnlog.Deletion{Key: key, By: by, At: time.Now().UTC()}, stop)
		if !stop || !errors.Is(err, store.ErrConflict) {
			return Missing(key, err)
		}
		select { // a delegated turn ends in another queue
		case <-time.After(stopPause):
		case <-ctx.Done():
			return err
		}
	}
}

// Missing replaces the error of a session that does not exist by one for people.
func Missing(key message.SessionKey, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return store.NotFound(fmt.Sprintf("no session %q (run \"flynn session list\")", key))
	}
	return err
}

// DeleteConversation deletes the sessions of a scope that is one conversation, and ends elevated mode there. Its errors are those of
// Delete.
func (k *Keeper) DeleteConversation(ctx context.Context, scope, by string, stop bool) error {
	if err := k.idle(scope); err != nil {
		if !stop {
			return err
		}
		if err := k.alone(ctx, scope, true, func() error { return nil }); err != nil { // the first turn creates the session when it ends
			return err
		}
	}
	list, err := k.Store.SessionsIn(ctx, scope)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return store.NotFound("nothing is stored for " + scope)
	}
	if _, err := k.Elevations.End(ctx, message.ConversationKey(scope), by, "the conversation was deleted"); err != nil {
		return err
	}
	for _, s := range list {
		if err := k.Delete(ctx, s.Key, by, stop); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Deleted removes what deleted sessions have outside the store. No turn may run in their scope.
func (k *Keeper) Deleted(ctx context.Context, keys []message.SessionKey) {
	workspaces := map[message.WorkspaceKey]bool{}
	for _, key := range keys {
		k.Turns.Forget(key)
		workspaces[key.Parse().Workspace()] = true
		k.Log.Info("session deleted", "session", key)
	}
	if err := k.Sandboxes.Forget(ctx, workspaces); err != nil {
		k.Log.Warn("cannot remove a deleted session from the engine yet; trying again later", "error", err)
	}
	select {
	case k.deleted <- struct{}{}:
	default: // a look is pending already
	}
}

// idle returns an error while something runs in a scope.
func (k *Keeper) idle(scope string) error {
	if k.Turns.Running(scope) || k.Turns.Delegated(scope) {
		return store.Conflict(fmt.Sprintf("a turn is running in %s: wait for it, or stop it (flynn session delete --stop)", scope))
	}
	return nil
}

func (k *Keeper) delete(ctx context.Context, d turnlog.Deletion, stop bool) error {
	return k.alone(ctx, d.Key.Parse().Scope, stop, func() error {
		ctx := context.WithoutCancel(ctx)
		if err := k.Store.DeleteSession(ctx, d); err != nil {
			return err
		}
		k.Deleted(ctx, []message.SessionKey{d.Key})
		return nil
	})
}

// alone calls do when nothing else runs in a scope. With stop, it ends what runs there and what begins before do.
func (k *Keeper) alone(ctx context.Context, scope string, stop bool, do func() error) error {
	done := make(chan error, 1)
	k.Queue.Alone(scope, func() {
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
			k.Turns.Stop(scope)
		}
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait until nothing else runs in %s: %w", scope, ctx.Err())
		case <-again.C: // a queued message may have been answered meanwhile
		}
	}
}
