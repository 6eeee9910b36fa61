package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// ownerOf returns the host that has a key.
func ownerOf(t *testing.T, s store.Owners, key store.OwnerKey) string {
	t.Helper()
	o, err := s.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return o.Host
}

type noWork struct{}

func (noWork) Lost(store.OwnerKey)     {}
func (noWork) Signaled(store.OwnerKey) {}
func (noWork) Stopped(store.OwnerKey)  {}
func (noWork) Vacant()                 {}
func (noWork) Controlled()             {}
func (noWork) Admitted() []store.Count { return nil }
func (noWork) Counted(store.Count)     {}

// joined opens a store in a folder as one of several hosts, until the test ends.
func joined(t *testing.T, dir, name string) store.Store {
	t.Helper()
	s, err := sqlite.Join(t.Context(), dir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// runs returns a host that runs until the test ends, with a clock that is ahead.
func runs(t *testing.T, s store.Store, ahead *atomic.Int64) *Member {
	m := New(Config{Owners: s, Every: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	m.work = noWork{}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestADrainedMemberGivesUpItsKeys as their work ends, and ends what takes too long.
func TestADrainedMemberGivesUpItsKeys(t *testing.T) {
	s := joined(t, t.TempDir(), "a")
	var ahead atomic.Int64
	m := runs(t, s, &ahead)
	owner := func(key store.OwnerKey) string { return ownerOf(t, s, key) }
	enter := func(key store.OwnerKey) (context.Context, func()) {
		t.Helper()
		work, done, err := m.Enter(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		return work, done
	}
	short := store.ConversationOwner(message.NewConversationKey("irc", "short"))
	long := store.ConversationOwner(message.NewConversationKey("irc", "long"))
	unused, irc := store.ConversationOwner(message.NewConversationKey("irc", "unused")), store.ChannelOwner("irc")
	_, shortDone := enter(short)
	longWork, longDone := enter(long)
	for _, key := range []store.OwnerKey{unused, irc} {
		_, done := enter(key)
		done()
	}
	part := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		part <- m.Exclusively(t.Context(), store.UpkeepOwner, func(ctx context.Context) error {
			select {
			case running <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done()
			return nil
		})
	}()
	<-running
	if err := s.Drain(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is not used is given up", func() bool { return owner(unused) == "" && owner(store.UpkeepOwner) == "" })
	if got := [...]string{owner(short), owner(long), owner(irc)}; got != [...]string{"a", "a", "a"} {
		t.Errorf("what is used, and a channel within its term, belong to %q", got)
	}
	for _, key := range []store.OwnerKey{unused, irc, store.MemoryOwner} {
		if _, _, err := m.Enter(t.Context(), key, nil); !errors.Is(err, store.ErrOwned) {
			t.Errorf("entered %s: %v", key, err)
		}
	}
	_, inner := enter(short) // work of the work
	shortDone()
	inner()
	eventually(t, "what has ended is given up", func() bool { return owner(short) == "" })
	ahead.Add(int64(Term))
	eventually(t, "the channel is given up", func() bool { return owner(irc) == "" })
	if longWork.Err() != nil {
		t.Fatal("what is under way has ended early")
	}
	ahead.Add(int64(drainTime))
	<-longWork.Done()
	if owner(long) != "a" {
		t.Error("a key was given up while its work was ending")
	}
	longDone()
	eventually(t, "what took too long is given up", func() bool { return owner(long) == "" })

	if err := s.Drain(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-running:
	case <-time.After(30 * time.Second):
		t.Fatal("the task of the host does not run again")
	}
	_, done := enter(short)
	done()
	if owner(short) != "a" {
		t.Error("a host that is not drained any more gets no keys")
	}
}

// TestADrainedMemberPassesChannelsOn although there is always something to send: what waits for the lease ends after a term, and what needs none is not
// begun any more.
func TestADrainedMemberPassesChannelsOn(t *testing.T) {
	s := joined(t, t.TempDir(), "a")
	var ahead atomic.Int64
	m := runs(t, s, &ahead)
	leased, shared := store.ChannelOwner("leased"), store.ChannelOwner("shared")
	eventually(t, "the lease", func() bool { return m.Lease("leased").Left() > 0 })
	m.Lease("shared")
	works, dones := map[store.OwnerKey]context.Context{}, map[store.OwnerKey]func(){}
	for _, key := range []store.OwnerKey{leased, shared} {
		var err error
		if works[key], dones[key], err = m.Enter(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drain(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no lease", func() bool { return m.Lease("leased").Left() == 0 && m.Idle() != "" })
	for key := range works {
		_, done, err := m.Enter(t.Context(), key, nil)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		done()
	}
	ahead.Add(int64(Term))
	m.Lease("leased").Left() // its plugin waits
	<-works[leased].Done()
	dones[leased]()
	eventually(t, "the channel with a lease is given up", func() bool { return ownerOf(t, s, leased) == "" })
	if _, _, err := m.Enter(t.Context(), shared, nil); !errors.Is(err, store.ErrOwned) {
		t.Errorf("entered: %v", err)
	}
	if works[shared].Err() != nil || ownerOf(t, s, shared) != "a" {
		t.Error("what is sent without a lease has ended early")
	}
	dones[shared]()
	eventually(t, "the channel without a lease is given up", func() bool { return ownerOf(t, s, shared) == "" })
}
