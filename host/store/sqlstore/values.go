package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/store"
)

// Value implements store.Values.
func (s *Store) Value(ctx context.Context, instance, key string) ([]byte, error) {
	var value []byte
	err := s.read.Row(ctx, "SELECT value FROM plugin_values WHERE instance = ? AND key = ?", instance, []byte(key)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read a value of %s: %w", instance, err)
	}
	return value, nil
}

// SetValue implements store.Values.
func (s *Store) SetValue(ctx context.Context, instance, key string, value []byte, room store.Room) error {
	if value == nil {
		value = []byte{} // the column takes no NULL
	}
	err := s.writer.write(ctx, func(w *writer) error {
		before, grows, err := w.weigh(instance, key)
		if err != nil {
			return err
		}
		size := int64(len(key) + len(value))
		after := store.Room{Keys: before.Keys + grows.Keys, Bytes: before.Bytes + size - grows.Bytes}
		if after.Keys > before.Keys && after.Keys > room.Keys || after.Bytes > before.Bytes && after.Bytes > room.Bytes {
			return store.ErrNoRoom
		}
		if err := w.exec(`INSERT INTO plugin_values (instance, key, value) VALUES (?, ?, ?)
			ON CONFLICT (instance, key) DO UPDATE SET value = excluded.value`, instance, []byte(key), value); err != nil {
			return err
		}
		return w.exec(`INSERT INTO plugin_values_usage (instance, keys, bytes) VALUES (?, ?, ?)
			ON CONFLICT (instance) DO UPDATE SET keys = excluded.keys, bytes = excluded.bytes`, instance, after.Keys, after.Bytes)
	})
	if err != nil {
		return fmt.Errorf("write a value of %s: %w", instance, err)
	}
	return nil
}

// weigh returns the size of the instance's values, and how writing the key changes it: one more key if it is new, less the bytes of its
// present value.
func (w *writer) weigh(instance, key string) (all, change store.Room, err error) {
	if err := w.session.Lock("values of " + instance); err != nil {
		return all, change, err
	}
	err = w.row("SELECT keys, bytes FROM plugin_values_usage WHERE instance = ?", []any{instance}, &all.Keys, &all.Bytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return all, change, err
	}
	err = w.row("SELECT length(key) + length(value) FROM plugin_values WHERE instance = ? AND key = ?", []any{instance, []byte(key)}, &change.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		return all, store.Room{Keys: 1}, nil
	}
	return all, change, err
}

// DeleteValue implements store.Values.
func (s *Store) DeleteValue(ctx context.Context, instance, key string) error {
	err := s.writer.write(ctx, func(w *writer) error {
		_, change, err := w.weigh(instance, key)
		if err != nil || change.Keys == 1 {
			return err
		}
		if err := w.exec("DELETE FROM plugin_values WHERE instance = ? AND key = ?", instance, []byte(key)); err != nil {
			return err
		}
		return w.exec("UPDATE plugin_values_usage SET keys = keys - 1, bytes = bytes - ? WHERE instance = ?", change.Bytes, instance)
	})
	if err != nil {
		return fmt.Errorf("delete a value of %s: %w", instance, err)
	}
	return nil
}

// ListValues implements store.Values.
func (s *Store) ListValues(ctx context.Context, instance, prefix, after string, limit int) ([]string, error) {
	query, args := "SELECT key FROM plugin_values WHERE instance = ? AND key >= ? AND key > ?", []any{instance, []byte(prefix), []byte(after)}
	if end := prefixEnd(prefix); end != nil {
		query, args = query+" AND key < ?", append(args, end)
	}
	keys, err := list(ctx, s.read, func(scan func(...any) error) (string, error) {
		var key []byte
		err := scan(&key)
		return string(key), err
	}, query+" ORDER BY key LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("list the values of %s: %w", instance, err)
	}
	return keys, nil
}

// prefixEnd returns the first key after all those with the prefix; nil if there is none.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for len(end) > 0 {
		if last := len(end) - 1; end[last] < 0xff {
			end[last]++
			return end
		}
		end = end[:len(end)-1]
	}
	return nil
}

// ValueUsage implements store.Values.
func (s *Store) ValueUsage(ctx context.Context, instance string) (store.Room, error) {
	var r store.Room
	err := s.read.Row(ctx, "SELECT keys, bytes FROM plugin_values_usage WHERE instance = ?", instance).Scan(&r.Keys, &r.Bytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("weigh the values of %s: %w", instance, err)
	}
	return r, nil
}

// RemoveValues implements store.Values.
func (s *Store) RemoveValues(ctx context.Context, instance string) error {
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.exec("DELETE FROM plugin_values WHERE instance = ?", instance); err != nil {
			return err
		}
		return w.exec("DELETE FROM plugin_values_usage WHERE instance = ?", instance)
	})
	if err != nil {
		return fmt.Errorf("remove the values of %s: %w", instance, err)
	}
	return nil
}
