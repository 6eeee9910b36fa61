package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Ownership is what the writer's host owns. The session reads it at the beginning of a transaction, and keeps it as long as nothing can
// have changed it.
type Ownership struct {
	Host, Incarnation string

	Read   bool                      // the fields below are valid
	Fenced bool                      // another incarnation of the host writes
	Taken  map[store.OwnerKey]string // the owner of each taken key
}

// all reports whether the host owns everything, because no other host has taken a key.
func (o *Ownership) all() bool { return len(o.Taken) == 0 && o.Host == store.DefaultHost }

// owns returns store.ErrFenced unless the host owns a key.
func (w *writer) owns(key store.OwnerKey) error {
	host, taken := w.own.Taken[key]
	if !taken {
		host = store.DefaultHost
	}
	if host != w.own.Host {
		return fmt.Errorf("%s: %w", key, store.ErrFenced)
	}
	return nil
}

// owned restricts a write to the owner of a key.
func owned(key store.OwnerKey, do func(*writer) error) func(*writer) error {
	return func(w *writer) error {
		if err := w.owns(key); err != nil {
			return err
		}
		return do(w)
	}
}

// ownsRow is like owns for the conversation or the channel of a row, whose channel and conversation query selects. A missing row has no
// owner; the write itself reports that.
func (w *writer) ownsRow(key func(message.ConversationKey) store.OwnerKey, query string, id any) error {
	if w.own.all() {
		return nil
	}
	var instance, conversation string
	switch err := w.row(query, []any{id}, &instance, &conversation); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return w.owns(key(message.NewConversationKey(instance, conversation)))
}

const (
	whereOfInbox = "SELECT channel, json_extract(CAST(message AS TEXT), '$.conversation.id') FROM inbox WHERE id = ?"
	whereOfTurn  = "SELECT channel, conversation FROM turns WHERE id = ?"
)

func channelOf(k message.ConversationKey) store.OwnerKey { return store.ChannelOwner(k.Channel()) }

// The epoch of a key is the sum of its row's and its host's, so that the start of a host changes all its keys with one row.
const selectOwner = `SELECT h.id, coalesce(n.incarnation, ''), coalesce(o.epoch, 0) + coalesce(n.epoch, 0)
	FROM (SELECT coalesce((SELECT host FROM owners WHERE key = ?1), ?2) AS id) h
	LEFT JOIN owners o ON o.key = ?1 LEFT JOIN hosts n ON n.id = h.id`

func scanOwner(scan func(...any) error) (o store.Owner, err error) {
	err = scan(&o.Host, &o.Incarnation, &o.Epoch)
	return o, err
}

// Owner implements store.Owners.
func (s *Store) Owner(ctx context.Context, key store.OwnerKey) (store.Owner, error) {
	return one(ctx, s.read, scanOwner, selectOwner, key, store.DefaultHost)
}

// Take implements store.Owners.
func (s *Store) Take(ctx context.Context, key store.OwnerKey) (o store.Owner, err error) {
	err = s.writer.writeAlone(ctx, func(w *writer) error {
		w.over = append(w.over, func() { w.own.Read = false })
		read := func(dest ...any) error { return w.row(selectOwner, []any{key, store.DefaultHost}, dest...) }
		before, err := scanOwner(read)
		if err != nil {
			return err
		}
		err = w.exec(`INSERT INTO owners (key, host, epoch) VALUES (?1, ?2, ?3 + 1 - (SELECT epoch FROM hosts WHERE id = ?2))
			ON CONFLICT (key) DO UPDATE SET host = excluded.host, epoch = excluded.epoch`, key, w.own.Host, before.Epoch)
		if err != nil {
			return err
		}
		o, err = scanOwner(read)
		return err
	})
	if err != nil {
		return store.Owner{}, fmt.Errorf("take %s: %w", key, err)
	}
	return o, nil
}
