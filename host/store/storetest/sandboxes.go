package storetest

import (
	"errors"
	"testing"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Only the host that has a conversation takes its sandboxes, and each epoch is given once.
func sandboxes(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a\n'é"), join("b")
	renewed(t, a, alive)
	renewed(t, b, alive)
	one := store.Sandbox{Key: "k1", Workspace: "irc:'é\n:helper", Conversation: message.NewConversationKey("irc", "'é\n"), Record: []byte{0, 0xff, '\'', '"'}}
	two := store.Sandbox{Key: "k2", Workspace: "irc:other:helper", Conversation: "irc:other", Record: []byte("{}")}
	key := store.ConversationOwner(one.Conversation)
	claimed(t, a, key, "a\n'é")
	check(t, a.AddSandbox(t.Context(), two))
	check(t, a.AddSandbox(t.Context(), one))
	if err := b.AddSandbox(t.Context(), one); err == nil {
		t.Error("a record was added twice")
	}
	kept := func(s store.Store, of message.WorkspaceKey, want ...store.Sandbox) {
		t.Helper()
		all := must[[]store.Sandbox](t)(s.ListSandboxes(t.Context(), of))
		equal(t, "sandboxes", all, want)
	}
	one.Host, one.Epoch, two.Host, two.Epoch, two.Free = "a\n'é", 1, "a\n'é", 1, true
	mine := one
	mine.Free = true
	kept(a, "", mine, two)
	kept(b, "", one, two)
	kept(b, one.Workspace, one)

	refused := func(s store.Store, key string, epoch int64, want error) {
		t.Helper()
		if err := s.TakeSandbox(t.Context(), key, epoch); !errors.Is(err, want) {
			t.Errorf("taking %s in epoch %d: %v, not %v", key, epoch, err, want)
		}
	}
	refused(b, "k1", 1, store.ErrFenced)
	refused(a, "k1", 2, store.ErrConflict)
	refused(a, "k", 1, store.ErrConflict)
	renewed(t, a, dead)
	kept(b, one.Workspace, store.Sandbox{Key: "k1", Workspace: one.Workspace, Conversation: one.Conversation, Host: "a\n'é", Epoch: 1, Record: one.Record, Free: true})
	o := claimed(t, b, key, "b")
	check(t, b.TakeSandbox(store.WithEpoch(t.Context(), key, o.Epoch), "k1", 1))
	refused(b, "k1", 1, store.ErrConflict)
	if err := b.TakeSandbox(store.WithEpoch(t.Context(), key, o.Epoch-1), "k1", 2); !errors.Is(err, store.ErrFenced) {
		t.Errorf("work of an earlier epoch took it: %v", err)
	}
	check(t, a.DropSandbox(t.Context(), "k1", 1)) // it is another's now
	kept(b, one.Workspace, store.Sandbox{Key: "k1", Workspace: one.Workspace, Conversation: one.Conversation, Host: "b", Epoch: 2, Record: one.Record, Free: true})
	check(t, b.DropSandbox(t.Context(), "k1", 2))
	check(t, b.DropSandbox(t.Context(), "k1", 2))
	kept(b, "", two)
}

// A host learns which one worked with the files of a workspace before.
func workspaces(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a\n'é"), join("b")
	before := func(s store.Store, of message.WorkspaceKey, want string) {
		t.Helper()
		equal(t, "before", must[string](t)(s.WorkIn(t.Context(), of)), want)
	}
	before(a, "w'é\n", "")
	before(a, "w'é\n", "")
	before(b, "other", "")
	before(b, "w'é\n", "a\n'é")
	before(b, "w'é\n", "")
	before(a, "w'é\n", "b")
}
