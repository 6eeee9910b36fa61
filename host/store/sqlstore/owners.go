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

	Read   bool  // the fields below are valid
	Fenced bool  // another incarnation of the host writes
	Epoch  int64 // of the host
	Member bool  // the host has renewed its lease
	Taken  map[store.OwnerKey]Taken
}

// Taken is the row of a key that has moved.
type Taken struct {
	Host  string // empty if the key was released
	Epoch int64
}

// all reports whether the host owns everything, because no other host has taken a key.
func (o *Ownership) all() bool { return len(o.Taken) == 0 && o.Host == store.DefaultHost }

// epochOf returns the epoch in which the host owns a key.
func (o *Ownership) epochOf(key store.OwnerKey) (epoch int64, is bool) {
	t, taken := o.Taken[key]
	if !taken {
		t.Host = store.DefaultHost
	}
	return t.Epoch + o.Epoch, t.Host == o.Host
}

// owns returns store.ErrFenced unless the host owns a key.
func (w *writer) owns(key store.OwnerKey) error {
	if _, is := w.own.epochOf(key); !is {
		return fmt.Errorf("%s: %w", key, store.ErrFenced)
	}
	return nil
}

// within restricts a write to the epoch of its context.
func within(ctx context.Context, do func(*writer) error) func(*writer) error {
	key, epoch, restricted := store.EpochIn(ctx)
	if !restricted {
		return do
	}
	return func(w *writer) error {
		if now, is := w.own.epochOf(key); !is || now != epoch {
			return fmt.Errorf("%s: %w", key, store.ErrFenced)
		}
		return do(w)
	}
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
