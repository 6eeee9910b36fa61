package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/store"
)

// Cluster says which conversations this host works for, if others share its store; *cluster.Member implements it.
type Cluster interface {
	// Shared reports whether other hosts may have the store open.
	Shared() bool
	// Enter claims a key for some work. It returns store.ErrOwned if another host owns it.
	Enter(ctx context.Context, key store.OwnerKey, recover func(context.Context) error) (work context.Context, done func(), err error)
}

// Registry returns where the records of sandboxes are that the hosts of a cluster can take over, or nil if there are no other hosts.
func Registry(s store.SandboxRecords, c Cluster) container.Registry {
	if c == nil || !c.Shared() {
		return nil
	}
	return records{s, c}
}

// records keeps records of sandboxes in the store.
type records struct {
	store   store.SandboxRecords
	cluster Cluster
}

// Conversation implements container.Registry: a turn works in the epoch of its conversation.
func (r records) Conversation(ctx context.Context) (c message.ConversationKey, is bool) {
	key, _, is := store.EpochIn(ctx)
	if !is {
		return "", false
	}
	return key.Conversation()
}

// Enter implements container.Registry.
func (r records) Enter(ctx context.Context, c message.ConversationKey) (work context.Context, done func(), is bool, err error) {
	work, done, err = r.cluster.Enter(ctx, store.ConversationOwner(c), nil)
	if errors.Is(err, store.ErrOwned) || errors.Is(err, store.ErrFenced) {
		return nil, nil, false, nil
	}
	return work, done, err == nil, err
}

// Add implements container.Registry.
func (r records) Add(ctx context.Context, c container.Record) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("record a sandbox: %w", err)
	}
	return r.store.AddSandbox(ctx, store.Sandbox{Key: c.Key, Workspace: c.Session, Conversation: c.Conversation, Record: text})
}

// Take implements container.Registry.
func (r records) Take(ctx context.Context, c container.Record) error {
	err := r.store.TakeSandbox(ctx, c.Key, int64(c.Epoch))
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("%w: %w", frame.ErrTaken, err)
	}
	return err
}

// Drop implements container.Registry.
func (r records) Drop(ctx context.Context, key string, epoch uint64) error {
	return r.store.DropSandbox(ctx, key, int64(epoch))
}

// List implements container.Registry.
func (r records) List(ctx context.Context, session message.WorkspaceKey) ([]container.Registered, error) {
	rows, err := r.store.ListSandboxes(ctx, session)
	var all []container.Registered
	for _, row := range rows {
		parsed, failed := container.ParseRecord(row.Record)
		if failed == nil && (parsed.Key != row.Key || parsed.Session != row.Workspace || parsed.Conversation != row.Conversation || parsed.Instance == "") {
			failed = errors.New("it is that of another sandbox")
		}
		if failed != nil { // of another version: a host of that version takes it
			all = append(all, container.Registered{Record: container.Record{Key: row.Key}, Foreign: true})
			continue
		}
		parsed.Epoch = uint64(row.Epoch)
		all = append(all, container.Registered{Record: parsed, Free: row.Free})
	}
	return all, err
}

// TakeUp has the sandboxes taken over that other hosts have left. It does not block.
func (f *Fleet) TakeUp() {
	if m := f.sandboxes(); m != nil {
		m.LookSoon()
	}
}

// Moved returns one line about what has stayed on another host when a conversation has come to this one, once for each time that it comes. A
// sandbox that was taken over has brought the files along.
func (f *Fleet) Moved(ctx context.Context, session message.WorkspaceKey) string {
	_, epoch, is := store.EpochIn(ctx)
	if !is || f.config.Cluster == nil || !f.config.Cluster.Shared() {
		return ""
	}
	return f.moved(ctx, session, epoch)
}

// moved is Moved in an epoch of the conversation.
func (f *Fleet) moved(ctx context.Context, session message.WorkspaceKey, epoch int64) string {
	if seen, known := f.worked.Load(session); known && seen == epoch {
		return ""
	}
	before, err := f.config.Store.WorkIn(ctx, session)
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("cannot find out where the files of a conversation are", "session", session, "error", err)
		}
		return ""
	}
	f.worked.Store(session, epoch)
	if m := f.sandboxes(); before == "" || m != nil && m.TookOver(session) {
		return ""
	}
	return fmt.Sprintf("This conversation was on host %q before, and its files and background commands stayed there: the workspace here is empty, or as it was when the conversation was last here.", before)
}
