// Package feed tells pages that are open what has changed on the host, so that they load it again.
//
// Start with Feed. The journal of changes is in the store, which records what is in it by itself; the feed notes what is not, gathers
// changes that come close together, and wakes the readers, each of which reads the journal from where it is. So a slow reader costs
// nothing, and one that was away continues where it left off. The feed does not say what a thing has become, nor who may see it.
package feed

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
)

const (
	// Gather is how long a change waits for others. One thing that changes several times meanwhile is one change.
	Gather = 100 * time.Millisecond
	// Keep and Most bound what a reader that was away can catch up with.
	Keep = 24 * time.Hour
	Most = 10_000

	prunePause = time.Hour
	lookPause  = 2 * time.Second // between two looks at the sandboxes
	maxNoted   = 1000
)

// Config configures a Feed.
type Config struct {
	Store  store.Journal
	Events *event.Bus
	// Warned receives after warnings of the log; it may be nil.
	Warned <-chan struct{}
	// Sandboxes are looked at while somebody reads; nil if there are none.
	Sandboxes Sandboxes
	Log       *slog.Logger
}

// Sandboxes counts the containers of each session.
type Sandboxes interface {
	Living() map[message.WorkspaceKey]int
}

// Feed is the stream of changes. Its methods are safe for concurrent use.
type Feed struct {
	Config
	wake chan struct{} // capacity 1: something is noted, or a reader came
	over chan struct{} // closed when Run ends

	mu      sync.Mutex
	noted   map[store.Change]struct{} // without Seq and At
	more    chan struct{}             // closed when there are new changes
	readers int

	living map[message.WorkspaceKey]int // used by Run alone
}

// New returns a feed, and subscribes to the events of what is not in the store.
func New(c Config) *Feed {
	f := &Feed{Config: c, wake: make(chan struct{}, 1), over: make(chan struct{}), noted: map[store.Change]struct{}{}, more: make(chan struct{})}
	event.On(c.Events, func(e plugin.StateChanged) { f.Note(store.Plugins, e.Name) })
	event.On(c.Events, func(e policy.Change) { f.Note(store.Policies, e.Policy) })
	event.On(c.Events, func(e message.Event) {
		switch e.Kind {
		case message.TurnStarted, message.TurnDone: // the store knows of a turn before it runs, and when it has ended
			f.Note(store.Conversations, e.Channel+"/"+e.Conversation)
		}
	})
	return f
}

// Note notes that something has changed that is not in the store. It does not block.
func (f *Feed) Note(kind store.ChangeKind, id string) {
	f.mu.Lock()
	if len(f.noted) < maxNoted {
		f.noted[store.Change{Kind: kind, ID: id}] = struct{}{}
	}
	f.mu.Unlock()
	f.stir()
}

func (f *Feed) stir() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Read returns the first changes after a number; see store.Journal.
func (f *Feed) Read(ctx context.Context, after int64, limit int) ([]store.Change, store.Kept, error) {
	return f.Store.Changes(ctx, after, limit)
}

// More returns a channel that is closed when there are changes after those that Read returns now. Call it before Read.
func (f *Feed) More() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more
}

// Over returns a channel that is closed when there will be no more changes.
func (f *Feed) Over() <-chan struct{} { return f.over }

// Enter counts a reader until leave is called.
func (f *Feed) Enter() (leave func()) {
	f.count(1)
	f.stir()
	return func() { f.count(-1) }
}

func (f *Feed) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers += n
}

func (f *Feed) isRead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readers > 0
}

// Run records what is noted and wakes the readers, until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	defer close(f.over)
	prune := time.NewTicker(prunePause)
	defer prune.Stop()
	f.prune(ctx)
	var last int64
	for {
		committed := f.Store.Committed()
		if now := f.last(ctx); now != last {
			last = now
			f.announce()
		}
		if !f.rest(ctx, committed, prune.C) {
			f.record(context.WithoutCancel(ctx))
			return nil
		}
		select {
		case <-time.After(Gather):
		case <-ctx.Done():
		}
		f.look()
		f.record(ctx)
	}
}

// rest waits until something may have changed; false means that ctx has ended.
func (f *Feed) rest(ctx context.Context, committed <-chan struct{}, prune <-chan time.Time) bool {
	var look <-chan time.Time
	if f.Sandboxes != nil && f.isRead() {
		timer := time.NewTimer(lookPause)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case <-committed:
	case <-f.wake:
	case <-look:
	case <-f.Warned:
		f.Note(store.Warnings, "")
	case <-prune:
		f.prune(ctx)
	case <-ctx.Done():
		return false
	}
	return true
}

func (f *Feed) last(ctx context.Context) int64 {
	_, kept, err := f.Store.Changes(ctx, 0, 0)
	if err != nil && ctx.Err() == nil {
		f.Log.Debug("cannot read the changes", "error", err) // a warning would be a change
	}
	return kept.Last
}

func (f *Feed) announce() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.more)
	f.more = make(chan struct{})
}

// record writes what is noted. Changes that cannot be written are kept for the next time.
func (f *Feed) record(ctx context.Context) {
	f.mu.Lock()
	noted := f.noted
	f.noted = map[store.Change]struct{}{}
	f.mu.Unlock()
	if len(noted) == 0 {
		return
	}
	now := time.Now()
	list := slices.Collect(maps.Keys(noted))
	for i := range list {
		list[i].At = now
	}
	if err := f.Store.NoteChanges(ctx, list); err != nil {
		f.Log.Debug("cannot note changes", "error", err)
		f.mu.Lock()
		defer f.mu.Unlock()
		maps.Copy(f.noted, noted)
	}
}

// look notes the sandboxes that have come and gone.
func (f *Feed) look() {
	if f.Sandboxes == nil || !f.isRead() {
		return
	}
	now := f.Sandboxes.Living()
	for key, n := range now {
		if f.living[key] != n {
			f.Note(store.Sandboxes, string(key))
		}
	}
	for key := range f.living {
		if _, there := now[key]; !there {
			f.Note(store.Sandboxes, string(key))
		}
	}
	f.living = now
}

func (f *Feed) prune(ctx context.Context) {
	if err := f.Store.PruneChanges(ctx, time.Now().Add(-Keep), Most); err != nil && ctx.Err() == nil {
		f.Log.Warn("cannot prune the journal of changes", "error", err)
	}
}
