package session

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
)

// Notes for the agent of a fork.
const (
	filesCopied = "This conversation continues another one. Its files are a copy; what you do to them does not change the other conversation's"
	filesLeft   = "This conversation continues another one. The files that are spoken of stayed there: the workspace here is empty"
)

// Fork makes a new conversation of turns of another one, all of which have ended, with their files. left are the turns after them, oldest
// first. If the files cannot be copied, the new conversation has none, and says so. Background commands, sandboxes, homes and secrets stay
// with the original.
func (k *Keeper) Fork(ctx context.Context, turns, left []turnlog.Turn, b turnlog.Branch) (snapshot.Copied, error) {
	var f snapshot.Copied
	if slices.ContainsFunc(turns, func(t turnlog.Turn) bool { return t.State == turnlog.TurnRunning }) {
		return f, store.Conflict("an answer up to there is still being written: wait for it, or end it with /stop")
	}
	list, err := Fork(ctx, k.Store, turns, b, time.Now())
	if err != nil {
		return f, err
	}
	from := map[message.WorkspaceKey]message.WorkspaceKey{} // by the new one
	for _, t := range turns {
		old := t.Session.Parse()
		from[message.Session{Scope: string(message.NewConversationKey(b.Channel, b.Conversation.ID)), Agent: old.Agent}.Workspace()] = old.Workspace()
	}
	note := filesCopied
	f, made, err := k.copyFiles(ctx, from, left)
	if err != nil {
		f, note = snapshot.Copied{Why: err.Error()}, filesLeft
		k.Log.Warn("a forked conversation has none of the files", "conversation", b.Conversation.ID, "error", err)
	}
	if err := k.Store.PutSessions(ctx, list); err != nil {
		return f, errors.Join(err, k.removeFiles(made))
	}
	if f.Files == 0 && note == filesCopied {
		f.Why = "there were none"
		return f, nil
	}
	for to := range from {
		if err := k.Files.NoteFiles(to, note); err != nil {
			k.Log.Warn("an agent is not told what became of its files", "session", to, "error", err)
		}
	}
	return f, nil
}

// ForkAll is Fork for all that was said in a conversation.
func (k *Keeper) ForkAll(ctx context.Context, channel, conversation string, b turnlog.Branch) (snapshot.Copied, error) {
	turns, err := k.Store.History(ctx, channel, conversation, math.MaxInt32)
	if err == nil && len(turns) == 0 {
		err = store.NotFound("nothing was answered here yet")
	}
	if err != nil {
		return snapshot.Copied{}, err
	}
	return k.Fork(ctx, turns, nil, b)
}

// copyFiles makes the new workspaces, all or none.
func (k *Keeper) copyFiles(ctx context.Context, from map[message.WorkspaceKey]message.WorkspaceKey, left []turnlog.Turn) (
	f snapshot.Copied, made []message.WorkspaceKey, err error,
) {
	var ids []string
	for _, t := range left {
		ids = append(ids, t.ID)
	}
	for to, old := range from {
		c, err := k.Files.CopyWorkspace(ctx, old, to, ids)
		if err != nil {
			return f, nil, errors.Join(err, k.removeFiles(made))
		}
		made = append(made, to)
		f.Files, f.Bytes, f.Skipped, f.Then = f.Files+c.Files, f.Bytes+c.Bytes, f.Skipped+c.Skipped, f.Then || c.Then
	}
	return f, made, nil
}

func (k *Keeper) removeFiles(of []message.WorkspaceKey) (err error) {
	for _, to := range of {
		err = errors.Join(err, k.Files.RemoveWorkspace(to))
	}
	return err
}
