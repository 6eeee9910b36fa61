package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Turns are the host's turns.
type Turns interface {
	// Lost forgets what is in memory for a conversation that another host has claimed.
	Lost(conversation store.OwnerKey)
	// StopIn ends the turn that runs in a conversation.
	StopIn(conversation message.ConversationKey) bool
	// Look looks for unfinished work in the store: of conversations that other hosts have written to, and, if all is true, of those that the
	// host could claim. It returns false if the host has no room for these.
	Look(ctx context.Context, written []store.OwnerKey, all bool) (looked bool, err error)
}

// Replies are the replies that the host sends.
type Replies interface {
	// Lost forgets what is in memory for a channel that another host has claimed.
	Lost(channel string)
	// TakeUp queues the unsent replies over a channel.
	TakeUp(ctx context.Context, channel string) error
	// Look queues the unsent replies over channels that the host does not hold.
	Look(ctx context.Context, holds func(store.OwnerKey) bool) error
}

// Memory is what a host keeps in memory for all conversations.
type Memory interface {
	// Refresh reads it again, because another host has changed it.
	Refresh(ctx context.Context) error
}

// Sandboxes are the sandboxes of the host.
type Sandboxes interface {
	// TakeUp takes over those that other hosts have left. It must not block.
	TakeUp()
}

// Counts are counts of what is bounded for all hosts together.
type Counts interface {
	// Admitted returns what this host has counted since the last call.
	Admitted() []store.Count
	// Counted counts what another host has counted.
	Counted(c store.Count)
}

// UptakeConfig configures an Uptake.
type UptakeConfig struct {
	Member    *Member
	Turns     Turns
	Replies   Replies
	Sandboxes Sandboxes // nil: there are none
	Memory    []Memory
	Bounds    Counts
	Log       *slog.Logger
}

// Uptake takes up what other hosts have left or written. Run works through the news that renewals bring, so that no slow read delays the
// next one.
type Uptake struct {
	cfg  UptakeConfig
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	written map[store.OwnerKey]bool // keys for which another host has written
	sweep   bool                    // other keys may be claimed
	control bool                    // something changed that all hosts must learn of
}

var _ Work = (*Uptake)(nil)

// NewUptake returns the Uptake of a Member, which tells it the news from now on.
func NewUptake(c UptakeConfig) *Uptake {
	u := &Uptake{cfg: c, wake: make(chan struct{}, 1), written: map[store.OwnerKey]bool{}}
	c.Member.work = u
	return u
}

// Lost implements Work.
func (u *Uptake) Lost(key store.OwnerKey) {
	u.cfg.Turns.Lost(key)
	if name, is := key.Channel(); is {
		u.cfg.Replies.Lost(name)
	}
}

// Signaled implements Work.
func (u *Uptake) Signaled(key store.OwnerKey) { u.note(func() { u.written[key] = true }) }

// Stopped implements Work.
func (u *Uptake) Stopped(key store.OwnerKey) {
	if conversation, is := key.Conversation(); is {
		u.cfg.Turns.StopIn(conversation)
	}
}

// Vacant implements Work.
func (u *Uptake) Vacant() { u.note(func() { u.sweep = true }) }

// Controlled implements Work.
func (u *Uptake) Controlled() { u.note(func() { u.control = true }) }

// Admitted implements Work.
func (u *Uptake) Admitted() []store.Count { return u.cfg.Bounds.Admitted() }

// Counted implements Work.
func (u *Uptake) Counted(c store.Count) { u.cfg.Bounds.Counted(c) }

func (u *Uptake) note(what func()) {
	u.mu.Lock()
	what()
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run takes up what other hosts have left or written, until ctx ends.
func (u *Uptake) Run(ctx context.Context) error {
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return nil
		}
		u.mu.Lock()
		written, sweep, control := u.written, u.sweep, u.control
		u.written, u.sweep, u.control = map[store.OwnerKey]bool{}, false, false
		u.mu.Unlock()
		if control {
			u.refresh(ctx)
		}
		busy, err := u.look(ctx, written, sweep)
		if err == nil && !busy {
			continue
		}
		if err != nil && ctx.Err() == nil {
			u.cfg.Log.Error("cannot take up the work of other hosts; trying again", "error", err)
		}
		time.AfterFunc(Every, func() {
			u.note(func() {
				u.sweep = u.sweep || sweep
				for key := range written {
					u.written[key] = u.written[key] || err != nil
				}
			})
		})
	}
}

// look looks for work in the store. busy is true if this host has no room for more.
func (u *Uptake) look(ctx context.Context, written map[store.OwnerKey]bool, sweep bool) (busy bool, err error) {
	var conversations []store.OwnerKey
	for key := range written {
		name, is := key.Channel()
		if !is {
			conversations = append(conversations, key)
		} else if err := u.cfg.Replies.TakeUp(ctx, name); err != nil {
			return false, err
		}
	}
	if sweep {
		if u.cfg.Sandboxes != nil {
			u.cfg.Sandboxes.TakeUp()
		}
		if err := u.cfg.Replies.Look(ctx, u.cfg.Member.Holds); err != nil {
			return false, err
		}
	}
	looked, err := u.cfg.Turns.Look(ctx, conversations, sweep)
	return !looked, err
}

// refresh reads again what is kept in memory for all conversations.
func (u *Uptake) refresh(ctx context.Context) {
	for _, m := range u.cfg.Memory {
		if err := m.Refresh(ctx); err != nil {
			if ctx.Err() == nil {
				u.cfg.Log.Error("cannot read what another host has changed; trying again", "error", err)
				time.AfterFunc(Every, u.Controlled)
			}
			return
		}
	}
}
