package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// TestADrainedHostHandsOver has a host drained through another one in the middle of a turn. The turn ends where it began; all that comes later,
// through whichever host, is answered by the other, until the drain is undone.
func TestADrainedHostHandsOver(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	p.eventually("the first has the schedules", func() bool { return p.owner(store.ScheduleOwner) == "a" })
	p.say(a, "e1", "ann")
	answer := p.call()
	if err := b.store.Drain(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	p.eventually("the other has the schedules", func() bool { return p.owner(store.ScheduleOwner) == "b" })
	p.say(a, "e2", "bob")
	p.call() <- "2 of the other"
	p.answered("2 of the other")
	if o := p.owner(conversationKey("ann")); o != "a" {
		t.Errorf("what has begun belongs to %q", o)
	}
	answer <- "1 of the first"
	p.answered("1 of the first", "2 of the other")
	p.say(a, "e3", "ann")
	p.call() <- "3 of the other"
	p.answered("1 of the first", "2 of the other", "3 of the other")
	for _, c := range []string{"ann", "bob"} {
		if o := p.owner(conversationKey(c)); o != "b" {
			t.Errorf("the conversation of %s belongs to %q", c, o)
		}
	}
	if err := b.store.Drain(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	p.eventually("the first gets keys", func() bool {
		_, done, err := a.member.Enter(t.Context(), conversationKey("new"), nil)
		if err == nil {
			done()
		}
		return err == nil
	})
	p.say(a, "e4", "zoe")
	p.call() <- "4 of the first"
	p.answered("1 of the first", "2 of the other", "3 of the other", "4 of the first")
	if o := p.owner(conversationKey("zoe")); o != "a" {
		t.Errorf("what the first takes after the drain belongs to %q", o)
	}
}

// TestHostsAreShownAndRemoved looks at the hosts as people do, through one of them.
func TestHostsAreShownAndRemoved(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	of := func(m *member) gateway.Cluster { return m.backend().Cluster }
	hosts := func() map[string]gateway.ClusterHost {
		t.Helper()
		s, err := of(b).Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !s.Shared || s.This != "b" {
			t.Fatalf("it is %+v", s)
		}
		all := map[string]gateway.ClusterHost{}
		for _, h := range s.Hosts {
			all[h.Name] = h
		}
		return all
	}
	p.say(a, "e1", "ann")
	p.call() <- "1"
	p.answered("1")
	p.eventually("both are told", func() bool { h := hosts(); return h["a"].Address != "" && h["b"].Address != "" && h["a"].Tasks == 3 })
	h := hosts()["a"]
	if !h.Alive || h.Since.IsZero() || h.Idle != "" || h.Differs || h.Conversations != 1 || h.Channels < 1 || h.Address != a.gateway.Addr().String() {
		t.Errorf("the first is %+v", h)
	}
	if err := of(b).RemoveHost(t.Context(), "a"); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "flynn cluster drain a") {
		t.Errorf("removing one that is alive: %v", err)
	}
	if err := of(b).DrainHost(t.Context(), "nobody", true); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "flynn cluster status") {
		t.Errorf("draining nobody: %v", err)
	}

	// Another configuration, in the file of one host.
	a.stop()
	p.more = "[limits]\nsender_sessions = 7\n"
	a = p.start("a")
	p.eventually("the first gets no work", func() bool {
		h := hosts()["a"]
		return h.Idle == "differs" && h.Differs && h.Tasks+h.Conversations == 0
	})
	p.eventually("it says so", func() bool {
		s := a.status().Status(t.Context())
		return s.Idle == "differs" && strings.Contains(strings.Join(s.Warnings, "\n"), "flynn cluster accept")
	})
	p.say(a, "e2", "ann")
	p.call() <- "2"
	p.answered("1", "2")
	if o := p.owner(conversationKey("ann")); o != "b" {
		t.Errorf("the conversation belongs to %q", o)
	}
	if err := of(a).AcceptConfiguration(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.eventually("the second has it as well", func() bool {
		h := hosts()
		return h["a"].Idle == "" && h["b"].Idle == "" && b.current.Config().Limits.SenderSessions == 7
	})

	a.stop()
	p.eventually("the first is dead", func() bool { return !hosts()["a"].Alive })
	if err := of(b).RemoveHost(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, is := hosts()["a"]; is {
		t.Error("what was removed is shown")
	}
}
