package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Ownership says which conversations this host works for, if others share its store; *cluster.Member implements it.
type Ownership interface {
	// Shared reports whether other hosts may have the store open.
	Shared() bool
	// Enter claims a key for some work. If the key is new to the host, recover is called first. The context of the work ends when the key is
	// lost. It returns store.ErrOwned if another host owns the key.
	Enter(ctx context.Context, key store.OwnerKey, recover func(context.Context) error) (work context.Context, done func(), err error)
	// Begin returns when a side effect may begin, or why it never may.
	Begin(ctx context.Context) error
	// Holds reports whether the host owns a key as far as it knows.
	Holds(key store.OwnerKey) bool
}

// Arriving takes work that an earlier process or another host has left or written; *Arrivals implements it.
type Arriving interface {
	Push(it Item)
}

// holdings are the conversations that this host owns, if others share its store.
type holdings struct {
	mu sync.Mutex
	by map[store.OwnerKey]*holding
}

// holding is the time in which the host owns a conversation. A message is worked on once in it, even if it is found in the store while it
// is on its way into the queue.
type holding struct {
	known map[int64]bool // messages that have been in the queue
	// doubted is true if the store has to be looked at again: a turn has found a message settled there that this host took for open, and has left
	// those that it would have answered with it.
	doubted bool
}

// maxKnown bounds the messages that a holding remembers. The oldest are forgotten first; they have long been answered.
const maxKnown = 4096

// takes reports whether an item belongs into the queue of its conversation, and remembers it.
func (v *holding) takes(it *Item) bool {
	switch {
	case it.Look, it.holding != v && it.holding != nil, it.holding == nil && it.Turn == nil && v.known[it.Row.ID]:
		return false // of an earlier holding, and so among what was found in the store; or there a second time
	case it.holding == nil:
		it.holding = v
		v.know(it.Row.ID)
		for _, r := range it.Rows {
			v.know(r.ID)
		}
	}
	return true
}

func (v *holding) know(id int64) {
	v.known[id] = true
	if len(v.known) > maxKnown {
		all := slices.Sorted(maps.Keys(v.known))
		for _, id := range all[:len(all)/2] {
			delete(v.known, id)
		}
	}
}

// lacks reports whether this host has a conversation, if others share its store, and a message has not been in its queue.
func (t *holdings) lacks(key store.OwnerKey, id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.by[key]
	return v != nil && !v.known[id]
}

func (t *holdings) begin(key store.OwnerKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[key] = &holding{known: map[int64]bool{}}
}

// doubt has the store looked at again for the work of a conversation.
func (t *holdings) doubt(key store.OwnerKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.by[key]; v != nil {
		v.doubted = true
	}
}

func (t *holdings) doubts(key store.OwnerKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.by[key]
	return v != nil && v.doubted
}

// filter removes the items of a conversation that do not belong into its queue, and puts the others in order: what was found in the store may
// have come into the queue behind later messages.
func (t *holdings) filter(key store.OwnerKey, items []Item) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.by[key]
	var left, own []Item
	for _, it := range items {
		switch {
		case it.Alone != nil || it.owner() != key:
			left = append(left, it)
		case v != nil && v.takes(&it):
			left, own = append(left, it), append(own, it)
		}
	}
	slices.SortStableFunc(own, func(a, b Item) int {
		return cmp.Compare(a.Row.ID, b.Row.ID) // 0 for a turn
	})
	for i, it := range left {
		if it.Alone == nil && it.owner() == key {
			left[i], own = own[0], own[1:]
		}
	}
	return left
}

// keep marks what goes back into the queue, such as the messages of a turn that was stopped, as belonging there.
func (t *holdings) keep(key store.OwnerKey, rest []Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, it := range rest {
		if it.Alone == nil && it.holding == nil && it.owner() == key {
			rest[i].holding = t.by[key]
		}
	}
}

// notes reports whether a row in state Noted is new to the holding of a conversation.
func (t *holdings) notes(key store.OwnerKey, id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.by[key]
	if v == nil || v.known[id] {
		return false
	}
	v.know(id)
	return true
}

// Lost forgets what is in memory for a conversation that another host has claimed. Its turns end with the context of their work.
func (r *Runner) Lost(key store.OwnerKey) {
	r.holdings.mu.Lock()
	defer r.holdings.mu.Unlock()
	delete(r.holdings.by, key)
}

// owner returns the key of an item's conversation.
func (it Item) owner() store.OwnerKey {
	if it.Turn != nil {
		return store.ConversationOwner(it.Turn.ConversationKey())
	}
	return store.ConversationOwner(it.Row.Message.ConversationKey())
}

// others returns the items that are not of a conversation.
func others(items []Item, key store.OwnerKey) []Item {
	return slices.DeleteFunc(items, func(it Item) bool { return it.Alone == nil && it.owner() == key })
}

// owned works on the items of a scope as far as this host owns the conversation of the first. It leaves the others to their owners,
// which find them in the store.
func (r *Runner) owned(ctx context.Context, scope string, items []Item, work func(context.Context, []Item) []Item) (rest []Item) {
	key := items[0].owner()
	began := false
	recover := func(ctx context.Context) error {
		began = true
		return r.begins(ctx, scope, key)
	}
	child := strings.HasPrefix(scope, childKey)
	if child {
		recover = nil
	}
	held, done, err := r.cfg.Ownership.Enter(ctx, key, recover)
	switch {
	case errors.Is(err, store.ErrOwned), store.Settled(err):
		r.cfg.Log.Debug("another host works for a conversation", "key", key)
		return others(items, key)
	case err != nil:
		if ctx.Err() == nil {
			r.cfg.Log.Error("cannot claim a conversation; trying again", "key", key, "error", err)
			pause(ctx)
		}
		return items
	}
	defer done()
	if !began && !child && r.holdings.doubts(key) {
		pause(held) // whatever the reason, it does not happen all the time
		if err := recover(held); err != nil {
			if ctx.Err() == nil {
				r.cfg.Log.Error("cannot look for the work of a conversation; trying again", "key", key, "error", err)
				pause(ctx)
			}
			return items
		}
	}
	if began {
		return others(items, key) // all that is open is in the queue now
	}
	if !child {
		if items = r.holdings.filter(key, items); len(items) == 0 || items[0].Alone != nil || items[0].owner() != key {
			return items
		}
		if string(key) != string(store.ConversationOwner(message.ConversationKey(scope))) {
			r.sessions.forgetIn(scope) // its turns may be in conversations that another host owns
		}
	}
	rest = work(held, slices.Clone(items))
	if !child {
		r.holdings.keep(key, rest)
		if r.holdings.doubts(key) {
			r.cfg.Queue.Push(items[0].look())
		}
	}
	if held.Err() != nil && ctx.Err() == nil {
		return others(items, key)
	}
	return rest
}

// Arrive sets the way in for work that an earlier process or another host has left. It is called once, before there is any.
func (r *Runner) Arrive(a Arriving) { r.arriving = a }

// Continue queues what an earlier process has left. If other hosts share the store, it is found with the first renewal of the lease.
func (r *Runner) Continue(ctx context.Context, items []Item) error {
	if r.cfg.Ownership.Shared() {
		return nil
	}
	for _, it := range items {
		r.arriving.Push(it)
	}
	noted, err := r.cfg.Store.NotedInbox(ctx)
	for _, row := range noted {
		r.Note(row)
	}
	return err
}

// begins prepares the work for a conversation that has become this host's: it forgets what it knew of it, and queues what another host has
// left: first its replies, which the next one must not overtake.
func (r *Runner) begins(ctx context.Context, scope string, key store.OwnerKey) error {
	r.holdings.begin(key)
	r.sessions.forgetIn(scope)
	r.notes.take(scope)
	if conversation, is := key.Conversation(); is {
		if err := r.cfg.Outbox.TakeUp(ctx, conversation.Channel()); err != nil {
			return err
		}
	}
	return r.takeUp(ctx, key, true)
}

// takeUp queues the work of a conversation that is in the store: messages, and turns as well when the holding begins.
func (r *Runner) takeUp(ctx context.Context, key store.OwnerKey, turns bool) error {
	items, err := Recover(ctx, r.cfg.Store)
	if err != nil {
		return err
	}
	noted, err := r.cfg.Store.NotedInbox(ctx)
	if err != nil {
		return fmt.Errorf("list notes: %w", err)
	}
	for _, row := range noted {
		if (Item{Row: row}).owner() == key && r.holdings.notes(key, row.ID) {
			r.Note(row)
		}
	}
	for _, it := range items {
		if it.owner() == key && (turns || it.Turn == nil) {
			if !turns {
				r.said(it.Row.Message)
			}
			r.arriving.Push(it)
		}
	}
	return nil
}

// said shows a message to the watchers of its conversation, who know messages by their keys.
func (r *Runner) said(m message.Message) {
	r.cfg.Events.Publish(message.Event{Kind: message.Said, Channel: m.Channel, Conversation: m.Conversation.ID, Key: m.EventID, Text: m.Text, Files: m.FileNames()})
}

// Look looks for unfinished work in the store: of the given conversations that this host owns, which other hosts have written to, and, if
// all is true, of those that it could claim. It leaves these to hosts with more room if it is busy, and then returns false.
func (r *Runner) Look(ctx context.Context, written []store.OwnerKey, all bool) (looked bool, err error) {
	for _, key := range written {
		if r.cfg.Ownership.Holds(key) {
			if err := r.takeUp(ctx, key, false); err != nil {
				return false, err
			}
		}
	}
	items, err := Recover(ctx, r.cfg.Store)
	if err != nil {
		return false, err
	}
	if len(r.slots) > cap(r.slots)*7/10 {
		all, looked = false, !all
	} else {
		looked = true
	}
	seen := map[store.OwnerKey]bool{}
	for _, it := range items {
		key := it.owner()
		if seen[key] || r.cfg.Ownership.Holds(key) || !all && !slices.Contains(written, key) {
			continue
		}
		seen[key] = true
		r.cfg.Queue.Push(it.look())
	}
	return looked, nil
}

// look returns an item that has the host look for work in the conversation of another one.
func (it Item) look() Item {
	row := it.Row
	if it.Turn != nil {
		row.Message = message.Message{Channel: it.Turn.Channel, Conversation: it.Turn.Conversation}
	}
	if len(it.Rows) > 0 {
		row = it.Rows[0]
	}
	return Item{Row: row, Look: true}
}

// alone owns everything.
type alone struct{}

func (alone) Shared() bool                { return false }
func (alone) Begin(context.Context) error { return nil }
func (alone) Holds(store.OwnerKey) bool   { return true }
func (alone) Enter(ctx context.Context, _ store.OwnerKey, _ func(context.Context) error) (context.Context, func(), error) {
	return ctx, func() {}, nil
}
