package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// TestAHostSendsBeforeItReceives: the host that had a key has died, and what it ran may still run.
func TestAHostSendsBeforeItReceives(t *testing.T) {
	dir := t.TempDir()
	var ahead atomic.Int64
	irc := store.ChannelOwner("irc")
	dead := joined(t, dir, "dead")
	if _, err := dead.Renew(t.Context(), store.Lease{Term: Term, Reach: Reach}); err != nil {
		t.Fatal(err)
	}
	if _, err := dead.Claim(t.Context(), irc); err != nil {
		t.Fatal(err)
	}
	s := joined(t, dir, "b")
	m := runs(t, s, &ahead)
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := m.Lease("irc")
	if l.Sending() > 0 || l.Left() > 0 {
		t.Fatal("the other is alive")
	}
	if _, err := s.Take(t.Context(), irc); err != nil { // as when the end of its connection is noticed
		t.Fatal(err)
	}
	work, done, err := m.Enter(t.Context(), irc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if sending, left := l.Sending(), l.Left(); sending <= 0 || sending > Term || left > 0 {
		t.Errorf("%s to send, %s to receive", sending, left)
	}
	if rest := m.Rest(work); rest <= 0 || rest > Term+Term/margin {
		t.Errorf("the rest is %s", rest)
	}
	ahead.Add(int64(m.Rest(work) + time.Second))
	eventually(t, "it may receive", func() bool { return l.Left() > 0 })
	if rest := m.Rest(work); rest != 0 {
		t.Errorf("the rest is %s", rest)
	}
	if rest := m.Rest(t.Context()); rest != 0 {
		t.Errorf("without a key: %s", rest)
	}
}

// TestALeaseIsHadWhileSomebodyAsks: the host that is asked first has it, another gets it a term after the last question, and the epoch rises.
func TestALeaseIsHadWhileSomebodyAsks(t *testing.T) {
	dir := t.TempDir()
	var ahead [2]atomic.Int64
	var hosts [2]*Member
	var stores [2]store.Store
	for i, name := range []string{"a", "b"} {
		s := joined(t, dir, name)
		m := runs(t, s, &ahead[i])
		if err := m.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		hosts[i], stores[i] = m, s
	}
	a, b := hosts[0].Lease("irc"), hosts[1].Lease("irc")
	owner := func(key store.OwnerKey) string { return ownerOf(t, stores[0], key) }
	irc := store.ChannelOwner("irc")
	if o := owner(irc); o != store.DefaultHost {
		t.Errorf("nobody has asked, and %s has it", o)
	}
	eventually(t, "the first gets it", func() bool { return a.Left() > 0 })
	if left := a.Left(); left > Term-Term/margin || owner(irc) != "a" {
		t.Errorf("%s are left, and %s has it", left, owner(irc))
	}
	first := a.Epoch()
	for range 100 {
		if left := b.Left(); left > 0 {
			t.Fatalf("both have it, the other for %s", left)
		}
		if a.Left() == 0 {
			t.Fatal("the first has lost it")
		}
		time.Sleep(time.Millisecond)
	}
	if err := hosts[0].Yield(t.Context(), irc); err != nil || owner(irc) != "a" {
		t.Errorf("a yield while somebody asks: %v, and %s has it", err, owner(irc))
	}
	ahead[0].Add(int64(Term + time.Second)) // nobody asks the first any more
	eventually(t, "the other gets it", func() bool { return b.Left() > 0 })
	if epoch := b.Epoch(); epoch <= first || owner(irc) != "b" {
		t.Errorf("epoch %d after %d, and %s has it", epoch, first, owner(irc))
	}
	for range 100 {
		if a.Left() > 0 {
			t.Fatal("the first has it again")
		}
		time.Sleep(time.Millisecond)
	}

	web := store.ChannelOwner("web") // has no lease
	_, done, err := hosts[0].Enter(t.Context(), web, nil)
	if err != nil {
		t.Fatal(err)
	}
	done()
	if err := hosts[0].Yield(t.Context(), web); err != nil || owner(web) != "" {
		t.Errorf("a yield: %v, and %q has it", err, owner(web))
	}
}
