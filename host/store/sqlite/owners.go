package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// ownership is what the writer's host owns. It is read inside a transaction, which excludes other writers, and stays valid until
// another connection commits: SQLite counts those commits in data_version. So the check of a commit costs one pragma and no read.
type ownership struct {
	host, incarnation string

	read    bool
	version int64 // data_version at the time of reading
	epoch   int64 // of the host
	member  bool  // the host has renewed its lease
	fenced  bool  // another incarnation of the host writes
	taken   map[store.OwnerKey]ownerRow
}

// ownerRow is the row of a key that has moved.
type ownerRow struct {
	host  string // empty if the key was released
	epoch int64
}

// enter makes the writer a new incarnation of a host, which fences out the previous one.
//
// The commit is not flushed: only a crash of the machine can undo it, which the previous incarnation does not survive, and the first
// flushed commit includes it.
func (w *writer) enter(host string) error {
	w.own = ownership{host: host, incarnation: store.NewID(time.Now())}
	err := w.exec("PRAGMA synchronous = NORMAL")
	if err == nil {
		err = w.exec(`INSERT INTO hosts (id, incarnation, epoch) VALUES (?, ?, 1)
			ON CONFLICT (id) DO UPDATE SET incarnation = excluded.incarnation, epoch = epoch + 1, begins = expires`, host, w.own.incarnation)
	}
	return errors.Join(err, w.exec("PRAGMA synchronous = FULL"))
}

// confirm updates the writer's ownership. It is called inside each transaction, before anything is written.
func (w *writer) confirm() error {
	var version int64
	if err := w.row("PRAGMA data_version", nil, &version); err != nil {
		return err
	}
	if w.own.read && version == w.own.version {
		return nil
	}
	var incarnation string
	err := w.row("SELECT incarnation, epoch, expires > 0 FROM hosts WHERE id = ?", []any{w.own.host}, &incarnation, &w.own.epoch, &w.own.member)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	taken := map[store.OwnerKey]ownerRow{}
	if _, err = listOnce(context.Background(), w.conn, func(scan func(...any) error) (_ struct{}, err error) {
		var key store.OwnerKey
		var t ownerRow
		err = scan(&key, &t.host, &t.epoch)
		taken[key] = t
		return struct{}{}, err
	}, "SELECT key, host, epoch FROM owners"); err != nil {
		return err
	}
	w.own.read, w.own.version, w.own.taken, w.own.fenced = true, version, taken, incarnation != w.own.incarnation
	return nil
}

// all reports whether the host owns everything, because no other host has taken a key.
func (o *ownership) all() bool { return len(o.taken) == 0 && o.host == store.DefaultHost }

// epochOf returns the epoch in which the host owns a key.
func (o *ownership) epochOf(key store.OwnerKey) (epoch int64, is bool) {
	t, taken := o.taken[key]
	if !taken {
		t.host = store.DefaultHost
	}
	return t.epoch + o.epoch, t.host == o.host
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
