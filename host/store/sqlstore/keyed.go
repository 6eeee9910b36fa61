package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// BeginKeyed implements store.KeyedWrites.
func (s *Store) BeginKeyed(ctx context.Context, k store.KeyedWrite, forget time.Time, most int) (store.KeyedWrite, bool, error) {
	var found store.KeyedWrite // may still be written to when the context has ended, as may fresh
	var fresh bool
	err := s.writer.write(ctx, func(w *writer) (err error) {
		if err := w.exec("DELETE FROM keyed WHERE begun < ?", nanos(forget)); err != nil {
			return err
		}
		found, err = w.keyed(k.Caller, k.Key)
		if fresh = errors.Is(err, sql.ErrNoRows); !fresh {
			return err
		}
		var n int
		if err := w.row("SELECT count(*) FROM keyed WHERE caller = ?", []any{k.Caller}, &n); err != nil {
			return err
		}
		if n >= most {
			return store.ErrNoRoom
		}
		there, err := w.changed("INSERT INTO keyed (caller, key, print, begun, done, status, type, body) VALUES (?, ?, ?, ?, FALSE, 0, '', ?) ON CONFLICT DO NOTHING",
			k.Caller, k.Key, k.Print, nanos(k.Begun), []byte{})
		if err == nil && there == 0 { // another host was faster
			fresh = false
			found, err = w.keyed(k.Caller, k.Key)
		}
		return err
	})
	if err != nil {
		return store.KeyedWrite{}, false, fmt.Errorf("record a request with a key: %w", err)
	}
	return found, fresh, nil
}

func (w *writer) keyed(caller, key string) (store.KeyedWrite, error) {
	k := store.KeyedWrite{Caller: caller, Key: key}
	var begun int64
	err := w.row("SELECT print, begun, done, status, type, body FROM keyed WHERE caller = ? AND key = ?", []any{caller, key},
		&k.Print, &begun, &k.Done, &k.Status, &k.Type, &k.Body)
	k.Begun = instant(begun)
	return k, err
}

// EndKeyed implements store.KeyedWrites.
func (s *Store) EndKeyed(ctx context.Context, k store.KeyedWrite) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec("UPDATE keyed SET done = TRUE, status = ?, type = ?, body = ? WHERE caller = ? AND key = ?", k.Status, k.Type, append([]byte{}, k.Body...), k.Caller, k.Key)
	})
	if err != nil {
		return fmt.Errorf("record the answer to a request with a key: %w", err)
	}
	return nil
}
