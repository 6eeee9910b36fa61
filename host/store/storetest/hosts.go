package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
)

// hostsOf returns what is known of the hosts, by id.
func hostsOf(t *testing.T, s store.Store) map[string]store.HostState {
	t.Helper()
	all := map[string]store.HostState{}
	var ids []string
	for _, h := range must[[]store.HostState](t)(s.Hosts(t.Context())) {
		all[h.ID], ids = h, append(ids, h.ID)
	}
	if !slices.IsSorted(ids) {
		t.Errorf("the hosts come as %q", ids)
	}
	return all
}

// within checks that a time is between two others, by clocks that differ little.
func within(t *testing.T, what string, at, from, to time.Time) {
	t.Helper()
	if at.Before(from.Add(-time.Second)) || at.After(to.Add(time.Second)) {
		t.Errorf("%s: %s is not from %s to %s", what, at, from, to)
	}
}

func hostsAreListed(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	const b = "b\n'é"
	began := time.Now()
	a, other := join("a"), join(b)
	equal(t, "one that has no lease", hostsOf(t, a)["a"], store.HostState{ID: "a", Self: true})
	renewed(t, a, alive)
	for _, key := range []store.OwnerKey{store.UpkeepOwner, store.ScheduleOwner, store.MemoryOwner, store.ChannelOwner("irc"), store.ChannelOwner("conversation"),
		store.ConversationOwner(msg("e").ConversationKey())} {
		claimed(t, a, key, "a")
	}
	check(t, a.Release(t.Context(), store.MemoryOwner))
	check(t, second(other.Renew(t.Context(), store.Lease{Term: alive, Address: "http://[::1]:2", Version: "v1", Digests: "é"})))
	ended := time.Now()
	all := hostsOf(t, other)
	since := all["a"].Since
	within(t, "since", since, began, ended)
	equal(t, "the first", all["a"], store.HostState{
		ID: "a", Address: "[::1]:1", Version: "v0\n", Digests: "é", Alive: true, Since: since, Conversations: 1, Channels: 2, Singletons: 2,
	})
	equal(t, "the second", all[b], store.HostState{ID: b, Self: true, Address: "http://[::1]:2", Version: "v1", Digests: "é", Alive: true, Since: all[b].Since})

	renewed(t, a, 2*alive)
	equal(t, "since when, after another renewal", hostsOf(t, other)["a"].Since, since)
	again := join("a") // a new process
	if h := hostsOf(t, other)["a"]; !h.Alive || !h.Since.IsZero() {
		t.Errorf("one that was started and has not renewed is %+v", h)
	}
	renewed(t, again, dead)
	h := hostsOf(t, other)["a"]
	if h.Alive || h.Conversations != 1 {
		t.Errorf("a dead one is %+v", h)
	}
	within(t, "dead since", h.Since, began, time.Now())
	renewed(t, other, alive)
	check(t, other.Leave(t.Context()))
	h = hostsOf(t, again)[b]
	if h.Alive {
		t.Errorf("one that has left is %+v", h)
	}
	within(t, "left at", h.Since, ended, time.Now())
}

func peersAreKnown(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	const name = "a\n'é"
	a, b, mute := join(name), join("b"), join("mute")
	told := func(s store.Store, l store.Lease) {
		t.Helper()
		check(t, second(s.Renew(t.Context(), l)))
	}
	knows := func(what string, s store.Store, want ...store.Peer) {
		t.Helper()
		got := must[[]store.Peer](t)(s.Peers(t.Context()))
		incarnations := map[string]bool{}
		for i := range got {
			incarnations[got[i].Incarnation] = true
			got[i].Incarnation = ""
		}
		if len(got) != len(want) || len(want) > 0 && !slices.Equal(got, want) || len(incarnations) != len(got) || incarnations[""] {
			t.Errorf("%s: they are %+v of incarnations %v, want %+v", what, got, incarnations, want)
		}
	}
	ofA, ofB := store.Peer{Host: name, Address: "[::1]:1", Fingerprint: "f'é"}, store.Peer{Host: "b", Address: "b:2", Fingerprint: "2"}
	knows("before any lease", a)
	told(a, store.Lease{Term: alive, Peer: ofA.Address, Fingerprint: ofA.Fingerprint})
	told(mute, store.Lease{Term: alive})
	told(b, store.Lease{Term: alive, Peer: ofB.Address, Fingerprint: ofB.Fingerprint})
	knows("both", a, ofA, ofB)
	if o := must[store.Owner](t)(b.Owner(t.Context(), store.ConversationOwner("irc:x"))); o.Host == name {
		t.Errorf("the owner is %+v", o)
	}
	key := store.ConversationOwner(msg("e").ConversationKey())
	owner := claimed(t, a, key, name)
	if p := must[[]store.Peer](t)(b.Peers(t.Context())); p[0].Incarnation != owner.Incarnation {
		t.Errorf("the incarnation is %q, and that of the owner %q", p[0].Incarnation, owner.Incarnation)
	}
	equal(t, "where it listens", hostsOf(t, b)[name].Peer, ofA.Address)

	again := join(name)
	knows("a new incarnation has told nothing", b, ofB)
	equal(t, "where it listens", hostsOf(t, b)[name].Peer, "")
	wantErr(t, second(a.Renew(t.Context(), store.Lease{Term: alive, Peer: "late", Fingerprint: "late"})), store.ErrFenced)
	knows("the one before is fenced out", b, ofB)
	ofA.Fingerprint = "new"
	told(again, store.Lease{Term: alive, Peer: ofA.Address, Fingerprint: ofA.Fingerprint})
	knows("it has told", b, ofA, ofB)
	told(again, store.Lease{Term: dead, Peer: ofA.Address, Fingerprint: ofA.Fingerprint})
	knows("it is dead", b, ofB)
	told(again, store.Lease{Term: alive})
	knows("it listens no more", b, ofB)
	check(t, b.Leave(t.Context()))
	knows("the other has left", again)
}

func drains(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	for _, s := range []store.Store{a, b} {
		renewed(t, s, alive)
	}
	m := msg("e1")
	key, irc := store.ConversationOwner(m.ConversationKey()), store.ChannelOwner(m.Channel)
	has := claimed(t, a, key, "a")
	wantErr(t, b.Drain(t.Context(), "nobody'", true), store.ErrNotFound)
	check(t, b.Drain(t.Context(), "a", true))
	if !must[bool](t)(a.Signaled(t.Context())) {
		t.Error("a host that is drained is not told")
	}
	r := renewed(t, a, alive)
	equal(t, "why it gets nothing", r.Idle, store.IdleDrained)
	renewed(t, a, alive, r.Signals[0].ID)
	equal(t, "its state", hostsOf(t, b)["a"].Idle, store.IdleDrained)
	equal(t, "what it has", claimed(t, a, key, "a"), has)
	_, err := a.Claim(t.Context(), irc)
	wantErr(t, err, store.ErrOwned)

	// The work that it gives up and takes is for the others.
	check(t, a.Release(t.Context(), key))
	_, _, err = a.AppendInbox(t.Context(), m, mailbox.InboxNew, "")
	check(t, err)
	var told []store.OwnerKey
	for _, s := range renewed(t, b, alive).Signals {
		if s.Kind == store.SignalWork {
			told = append(told, s.Key)
		}
	}
	equal(t, "what the other is told", told, []store.OwnerKey{key, key})
	if o := must[store.Owner](t)(a.Owner(t.Context(), key)); o.Host == "a" {
		t.Error("a drained host got the conversation of a message")
	}
	claimed(t, b, key, "b")

	a = join("a")
	equal(t, "after a new start", renewed(t, a, alive).Idle, store.IdleDrained)
	wantErr(t, second(a.Claim(t.Context(), irc)), store.ErrOwned)
	check(t, a.Drain(t.Context(), "a", false))
	equal(t, "undone", renewed(t, a, alive).Idle, store.Idle(""))
	claimed(t, a, irc, "a")
}

func differs(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	var revision int64 // of all
	idle := func(s store.Store, digests string) store.Idle {
		t.Helper()
		return must[store.Renewal](t)(s.Renew(t.Context(), store.Lease{Term: alive, Digests: digests, Revision: revision})).Idle
	}
	wants := func(what string, got, want store.Idle) {
		t.Helper()
		equal(t, what, got, want)
	}
	wants("the first", idle(a, "1"), "")
	wants("another", idle(b, "2"), store.IdleDiffers)
	wants("it again", idle(b, "2"), store.IdleDiffers)
	wantErr(t, second(b.Claim(t.Context(), store.UpkeepOwner)), store.ErrOwned)
	claimed(t, a, store.UpkeepOwner, "a")
	wants("the same", idle(b, "1"), "")
	claimed(t, b, store.MemoryOwner, "b")

	// A change reaches one after the other.
	wants("the first that changes", idle(b, "2"), store.IdleDiffers)
	revision = must[int64](t)(b.Agree(t.Context(), store.Revision{}))
	if !must[bool](t)(a.Signaled(t.Context())) {
		t.Error("a host that agrees no more is not told")
	}
	wants("it, after all", idle(b, "2"), "")
	wants("the one that was first", idle(a, "1"), store.IdleDiffers)
	equal(t, "its state", hostsOf(t, b)["a"].Idle, store.IdleDiffers)

	// One that differs does not win by the death of the others, nor one that starts while another is alive.
	renewed(t, b, dead)
	wants("the last", idle(a, "1"), store.IdleDiffers)
	b = join("b")
	wants("one that agrees starts", idle(b, "2"), "")
	a = join("a")
	wants("one that differs starts", idle(a, "1"), store.IdleDiffers)
	check(t, b.Leave(t.Context()))
	a = join("a")
	wants("one starts alone", idle(a, "1"), "")
	wants("one alone changes", idle(a, "3"), "")
	wants("one starts beside it", idle(join("b"), "1"), store.IdleDiffers)
}

func removals(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	renewed(t, a, alive)
	renewed(t, b, alive)
	key := store.ChannelOwner("irc")
	first := claimed(t, a, key, "a")
	wantErr(t, b.Remove(t.Context(), "nobody"), store.ErrNotFound)
	wantErr(t, b.Remove(t.Context(), "a"), store.ErrOwned)
	wantErr(t, b.Remove(t.Context(), "b"), store.ErrOwned)
	a2 := join("a") // the one before may act for as long as its lease lasts
	renewed(t, a2, dead)
	wantErr(t, b.Remove(t.Context(), "a"), store.ErrOwned)
	a3 := join("a")
	renewed(t, a3, dead)
	check(t, b.Remove(t.Context(), "a"))
	if _, is := hostsOf(t, b)["a"]; is {
		t.Error("what was removed is listed")
	}
	if o := must[store.Owner](t)(b.Owner(t.Context(), key)); o.Host != "" || o.Epoch < first.Epoch {
		t.Errorf("the owner is %+v, and was %+v", o, first)
	}
	wantErr(t, second(a3.Renew(t.Context(), store.Lease{Term: alive})), store.ErrFenced)
	last := claimed(t, b, key, "b")
	equal(t, "takeovers", len(must[[]store.Takeover](t)(b.Takeovers(t.Context(), 9))), 0)
	a4 := join("a")
	renewed(t, a4, alive)
	check(t, b.Release(t.Context(), key))
	if o := claimed(t, a4, key, "a"); o.Epoch <= last.Epoch {
		t.Errorf("the epoch is %d after %d", o.Epoch, last.Epoch)
	}
}

func takeovers(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	const name = "a\n'é"
	a, b := join(name), join("b")
	renewed(t, b, alive)
	began := time.Now()
	for n := range 105 {
		renewed(t, a, alive)
		claimed(t, a, store.ChannelOwner(fmt.Sprint(n)), name)
	}
	renewed(t, a, dead)
	for n := range 105 {
		claimed(t, b, store.ChannelOwner(fmt.Sprint(n)), "b")
	}
	check(t, b.Release(t.Context(), store.ChannelOwner("0")))
	renewed(t, a, alive)
	claimed(t, a, store.ChannelOwner("0"), name)  // was given up
	claimed(t, b, store.ChannelOwner("new"), "b") // belonged to nobody
	check(t, second(a.Take(t.Context(), store.ChannelOwner("1"))))
	all := must[[]store.Takeover](t)(b.Takeovers(t.Context(), 9))
	if len(all) > 2 && time.Since(began) < time.Minute && began.Minute() == time.Now().Minute() {
		t.Errorf("takeovers are %+v", all)
	}
	keys := map[string]int{}
	for i, v := range all {
		keys[v.From+" to "+v.Host] += v.Keys
		within(t, "a takeover", v.Last, began, time.Now())
		if i > 0 && v.Last.After(all[i-1].Last) {
			t.Errorf("takeovers come as %+v", all)
		}
	}
	equal(t, "keys", keys, map[string]int{name + " to b": 105, "b to " + name: 1})
	equal(t, "the latest", len(must[[]store.Takeover](t)(b.Takeovers(t.Context(), 1))), 1)

	// Only the latest are kept.
	var hosts []store.Store
	for n := range 11 {
		hosts = append(hosts, join(fmt.Sprint("x", n)))
	}
	last := store.ChannelOwner("last")
	for _, loser := range hosts {
		for _, winner := range hosts {
			check(t, second(loser.Take(t.Context(), last)))
			check(t, second(winner.Take(t.Context(), last)))
		}
	}
	check(t, second(hosts[3].Take(t.Context(), last)))
	if all = must[[]store.Takeover](t)(b.Takeovers(t.Context(), 1000)); len(all) != 100 || all[0].From != "x10" || all[0].Host != "x3" {
		t.Errorf("%d takeovers are kept, the latest is %+v", len(all), all[0])
	}
}
