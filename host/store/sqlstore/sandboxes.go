package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// AddSandbox implements store.SandboxRecords.
func (s *Store) AddSandbox(ctx context.Context, v store.Sandbox) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec("INSERT INTO sandboxes (key, workspace, conversation, host, epoch, record) VALUES (?, ?, ?, ?, 1, ?)",
			v.Key, v.Workspace, v.Conversation, w.own.Host, append([]byte{}, v.Record...))
	})
	if err != nil {
		return fmt.Errorf("record a sandbox: %w", err)
	}
	return nil
}

// TakeSandbox implements store.SandboxRecords.
func (s *Store) TakeSandbox(ctx context.Context, key string, epoch int64) error {
	err := s.writer.write(ctx, func(w *writer) error {
		var conversation message.ConversationKey
		err := w.row("SELECT conversation FROM sandboxes WHERE key = ? AND epoch = ? /* lock */", []any{key, epoch}, &conversation)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrConflict
		}
		if err == nil {
			err = w.owns(store.ConversationOwner(conversation))
		}
		if err != nil {
			return err
		}
		return w.exec("UPDATE sandboxes SET host = ?, epoch = epoch + 1 WHERE key = ?", w.own.Host, key)
	})
	if err != nil {
		return fmt.Errorf("take a sandbox over: %w", err)
	}
	return nil
}

// DropSandbox implements store.SandboxRecords.
func (s *Store) DropSandbox(ctx context.Context, key string, epoch int64) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec("DELETE FROM sandboxes WHERE key = ? AND epoch = ?", key, epoch)
	})
	if err != nil {
		return fmt.Errorf("forget a sandbox: %w", err)
	}
	return nil
}

// ListSandboxes implements store.SandboxRecords.
func (s *Store) ListSandboxes(ctx context.Context, workspace message.WorkspaceKey) ([]store.Sandbox, error) {
	all, err := list(ctx, s.read, func(scan func(...any) error) (v store.Sandbox, err error) {
		err = scan(&v.Key, &v.Workspace, &v.Conversation, &v.Host, &v.Epoch, &v.Record, &v.Free)
		return v, err
	}, `SELECT s.key, s.workspace, s.conversation, s.host, s.epoch, s.record, NOT EXISTS (SELECT 1 FROM owners o JOIN hosts h ON h.id = o.host
			WHERE o.key = '`+string(store.ConversationOwner(""))+`' || s.conversation AND h.id <> ?2 AND `+s.alive()+`)
		FROM sandboxes s WHERE ?1 = '' OR s.workspace = ?1 ORDER BY s.key`, workspace, s.writer.own.Host)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	return all, nil
}

// WorkIn implements store.SandboxRecords.
func (s *Store) WorkIn(ctx context.Context, workspace message.WorkspaceKey) (before string, err error) {
	var was string // may still be written to when the context has ended
	err = s.writer.write(ctx, func(w *writer) error {
		err := w.row("SELECT host FROM workspaces WHERE workspace = ? /* lock */", []any{workspace}, &was)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || was == w.own.Host {
			return err
		}
		return w.exec("INSERT INTO workspaces (workspace, host) VALUES (?, ?) ON CONFLICT (workspace) DO UPDATE SET host = excluded.host", workspace, w.own.Host)
	})
	if err != nil {
		return "", fmt.Errorf("record who works in a workspace: %w", err)
	}
	if was == s.writer.own.Host {
		was = ""
	}
	return was, nil
}

// SandboxesOfOthers returns the keys of the records that other hosts have.
func (r *Reader) SandboxesOfOthers(ctx context.Context, host string) (map[string]bool, error) {
	if r.version < sandboxesVersion {
		return nil, nil
	}
	keys, err := list(ctx, r.db, scanText[string], "SELECT key FROM sandboxes WHERE host <> ?", host)
	others := make(map[string]bool, len(keys))
	for _, key := range keys {
		others[key] = true
	}
	return others, err
}
