// Package cluster keeps a host in step with others that share its store: it renews the host's lease, claims conversations, channels and
// singletons for it, says when side effects may begin, and passes on what other hosts write.
//
// Start with Member. The store alone decides which writes are valid (store.Owners); this package keeps a host from beginning what it could
// not commit, and sees to it that what a dead host leaves is taken up. With a store that no other host can open, everything is owned and
// nothing is renewed.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/uptime"
)

// Term is how long a host counts as alive after a renewal, and Every is the time between two renewals. Reach is how long after a renewal side
// effects are begun without another one, if other hosts notice that the connection of this one has ended.
const (
	Term  = 4 * time.Second
	Every = time.Second
	Reach = 500 * time.Millisecond
)

// Work is what a host does for the keys that it owns.
type Work interface {
	// Lost is called when the host has lost a key. The contexts of its work have ended. It must forget what it holds in memory for the
	// key, because another host may have written since. It must not block, nor call the Member.
	Lost(key store.OwnerKey)
	// Signaled is called when another host has written something for a key. It must not block.
	Signaled(key store.OwnerKey)
	// Stopped is called when somebody at another host wants what runs for a key to end. It must not block.
	Stopped(key store.OwnerKey)
	// Vacant is called when a host has died or left, when this one has started, and now and then: keys can be claimed for which there is
	// work. It must not block.
	Vacant()
	// Controlled is called after changes that all hosts must learn of. It must not block.
	Controlled()
	// Admitted returns what this host has counted since the last call and other hosts are to count as well. It must not block.
	Admitted() []store.Count
	// Counted is called with what another host has counted. It must not block.
	Counted(c store.Count)
}

// Config configures a Member.
type Config struct {
	Owners store.Owners
	// Term, Every and Reach are those above when zero.
	Term, Every, Reach time.Duration
	// Version and Runs are told to other hosts.
	Version string
	Runs
	// Peer and Fingerprint are where this host listens for others, and how it proves itself; see store.Lease.
	Peer, Fingerprint string
	Log               *slog.Logger
	// Now returns the time of a clock that is never set, and that goes on while the machine is suspended; nil is that of package uptime.
	Now func() time.Time
}

// Runs is what a host tells of itself: its address, the digests of what it runs with, the one of its configuration as far as it concerns all hosts,
// and the revision of that.
type Runs struct {
	Address, Digests, Shared string
	Revision                 int64
}

// Member is a host among others that share its store. It is safe for concurrent use.
type Member struct {
	cfg    Config
	shared bool
	work   Work // set once, before Run

	mu       sync.Mutex
	from     time.Time     // side effects may begin from here
	near     time.Time     // to here, and then after another renewal
	until    time.Time     // what goes on without asking ends here
	reach    time.Duration // grows if renewals take long
	fenced   bool          // another incarnation has replaced this one
	renewed  chan struct{} // closed and replaced after each renewal
	wanted   chan struct{} // capacity 1: somebody waits for a renewal
	held     map[store.OwnerKey]*hold
	claiming map[*claim]bool
	heard    []int64        // signals that were acted on, and that the store has not been told of
	acted    map[int64]bool // the same
	alive    map[string]bool
	rights   map[store.OwnerKey]*right
	wished   chan struct{} // capacity 1: somebody asks for a lease for the first time
	counts   []store.Count // that the store has not been told of
	control  int64
	beats    int
	idling   idling
}

// hold is a key that the host owns as far as it knows.
type hold struct {
	key   store.OwnerKey
	epoch int64
	rest  time.Time     // a previous owner may run until then what goes on without asking
	lost  chan struct{} // closed when the key is lost
	users int           // work that has begun and not ended; guarded by Member.mu
	looks sync.Mutex    // held while somebody looks for work that another host left
	fresh bool          // nobody has; guarded by looks
}

// claim is a claim under way.
type claim struct {
	key  store.OwnerKey
	lost int64 // the epoch in which another host had the key meanwhile; an answer with an earlier one says nothing
}

// New returns a Member that may do nothing until Run has renewed its lease.
func New(c Config) *Member {
	if c.Term == 0 {
		c.Term = Term
	}
	if c.Every == 0 {
		c.Every = Every
	}
	if c.Reach == 0 {
		c.Reach = Reach
	}
	if c.Now == nil {
		c.Now = func() time.Time { return time.Unix(0, int64(uptime.SinceBoot())) }
	}
	return &Member{
		cfg: c, shared: c.Owners.Shared(), reach: c.Reach, renewed: make(chan struct{}), wanted: make(chan struct{}, 1), held: map[store.OwnerKey]*hold{},
		claiming: map[*claim]bool{}, acted: map[int64]bool{}, alive: map[string]bool{}, rights: map[store.OwnerKey]*right{}, wished: make(chan struct{}, 1),
		idling: newIdling(),
	}
}

// Shared reports whether other hosts may have the store open.
func (m *Member) Shared() bool { return m.shared }

// margin is the part of a term in which nothing is begun any more: the clock of the store may run faster than that of the host.
const margin = 8

// may returns nil if side effects may begin now; m.mu is held.
func (m *Member) may(h *hold) error {
	now := m.cfg.Now()
	switch {
	case m.fenced, h != nil && m.held[h.key] != h:
		return store.ErrFenced
	case now.Before(m.from) || !now.Before(m.near):
		return errLapsed
	}
	return nil
}

// errLapsed is returned while the lease is not renewed.
var errLapsed = errors.New("the host's lease in the store has lapsed")

// Begin is called before each side effect: a send, a call of a model, the start of a tool. It returns when the side effect may begin,
// because no other host can own the key of the context. It returns store.ErrFenced if the key was lost, and waits while the lease has
// lapsed. A host that is stopped between Begin and the effect may still act late; nothing can prevent that.
func (m *Member) Begin(ctx context.Context) error {
	if !m.shared {
		return nil
	}
	h, _ := ctx.Value(holdKey{}).(*hold)
	for {
		m.mu.Lock()
		err, renewed := m.may(h), m.renewed
		wait := m.from.Sub(m.cfg.Now())
		m.mu.Unlock()
		if !errors.Is(err, errLapsed) {
			return err
		}
		var later <-chan time.Time
		if wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			later = timer.C
		} else {
			select {
			case m.wanted <- struct{}{}:
			default:
			}
		}
		select {
		case <-renewed:
		case <-later:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

type holdKey struct{}

// Enter claims a key for some work, and returns the work's context. That ends when the key is lost, and binds the writes to the epoch in
// which the host owns the key. The caller calls done at the end of the work. If the key is new to the host, recover is called first; until
// it succeeds, it is called by each Enter for the key, one after the other. A nil recover leaves that to others.
//
// Enter returns store.ErrOwned if another host owns the key, or if this host gets no keys.
func (m *Member) Enter(ctx context.Context, key store.OwnerKey, recover func(context.Context) error) (work context.Context, done func(), err error) {
	if !m.shared {
		return ctx, func() {}, nil
	}
	if err := m.Begin(ctx); err != nil {
		return nil, nil, err
	}
	h, err := m.hold(ctx, key)
	if err == nil {
		err = m.uses(h)
	}
	if err != nil {
		return nil, nil, err
	}
	work, cancel := context.WithCancelCause(context.WithValue(store.WithEpoch(ctx, key, h.epoch), holdKey{}, h))
	stop := make(chan struct{})
	go func() { // ends with done
		select {
		case <-h.lost:
			cancel(fmt.Errorf("%s: %w", key, store.ErrFenced))
		case <-stop:
		}
	}()
	done = sync.OnceFunc(func() {
		close(stop)
		cancel(nil)
		m.unused(h)
	})
	if recover == nil {
		return work, done, nil
	}
	h.looks.Lock()
	defer h.looks.Unlock()
	if !h.fresh {
		return work, done, nil
	}
	if err := recover(work); err != nil {
		done()
		return nil, nil, fmt.Errorf("look for the work of %s: %w", key, err)
	}
	h.fresh = false
	return work, done, nil
}

// Holds reports whether the host owns a key as far as it knows.
func (m *Member) Holds(key store.OwnerKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.shared || m.held[key] != nil
}

// hold claims a key unless the host has it.
func (m *Member) hold(ctx context.Context, key store.OwnerKey) (*hold, error) {
	for {
		h, c := m.claims(key)
		if h != nil {
			return h, nil
		}
		o, err := m.cfg.Owners.Claim(ctx, key)
		if h, err = m.claimed(c, o, err); h != nil || err != nil {
			return h, err
		}
	}
}

// claims returns the hold of a key, or notes that a claim is sent.
func (m *Member) claims(key store.OwnerKey) (*hold, *claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.held[key]; h != nil {
		return h, nil
	}
	c := &claim{key: key}
	m.claiming[c] = true
	return nil, c
}

// claimed takes the answer to a claim. It returns nil if the key was lost since the store gave the answer.
func (m *Member) claimed(c *claim, o store.Owner, err error) (*hold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claiming, c)
	if err != nil || o.Epoch < c.lost {
		return nil, err
	}
	if h := m.held[c.key]; h != nil && h.epoch == o.Epoch {
		return h, nil
	}
	m.drop(c.key)
	h := &hold{key: c.key, epoch: o.Epoch, rest: m.cfg.Now().Add(o.Rest + o.Rest/margin), lost: make(chan struct{}), fresh: true}
	m.held[c.key] = h
	return h, nil
}

// drop ends the work for a key; m.mu is held.
func (m *Member) drop(key store.OwnerKey) {
	h := m.held[key]
	if h == nil {
		return
	}
	delete(m.held, key)
	close(h.lost)
	m.work.Lost(key)
}

// lost takes a signal that another host has claimed a key; m.mu is held. The host may have claimed it again since.
func (m *Member) lost(key store.OwnerKey, epoch int64) {
	for c := range m.claiming {
		if c.key == key {
			c.lost = max(c.lost, epoch)
		}
	}
	if h := m.held[key]; h != nil && h.epoch < epoch {
		m.drop(key)
	}
}

// Release gives up a key. The host must have ended its work for it.
func (m *Member) Release(ctx context.Context, key store.OwnerKey) error {
	if !m.shared {
		return nil
	}
	m.mu.Lock()
	h := m.held[key]
	m.mu.Unlock()
	if h == nil {
		return m.cfg.Owners.Release(ctx, key)
	}
	return m.release(ctx, h)
}

// Stop has the host that owns a key, if that is another one, end what runs for it.
func (m *Member) Stop(ctx context.Context, key store.OwnerKey) error {
	if m.Holds(key) {
		return nil
	}
	return m.cfg.Owners.Stop(ctx, key)
}

// Leave gives up all keys, so that other hosts can take them at once. The host must have ended its work.
func (m *Member) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Term)
	defer cancel()
	if err := m.leave(ctx); err != nil {
		m.cfg.Log.Warn("cannot give up what this host owns; other hosts take it when its lease has expired", "error", err)
	}
}

func (m *Member) leave(ctx context.Context) error {
	if !m.shared {
		return nil
	}
	m.mu.Lock()
	fenced := m.fenced
	m.end()
	m.mu.Unlock()
	if fenced {
		return nil // another incarnation has the keys
	}
	return m.cfg.Owners.Leave(ctx)
}

// end drops all keys, and lets nothing begin any more; m.mu is held.
func (m *Member) end() {
	m.fenced = true
	for key := range m.held {
		m.drop(key)
	}
	m.wake()
}

// wake makes all who wait look again; m.mu is held.
func (m *Member) wake() {
	close(m.renewed)
	m.renewed = make(chan struct{})
}
