package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/access/signins"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Hosts live for an hour, unless a test lets them die.
const (
	alive = time.Hour
	dead  = time.Nanosecond
)

func renewed(t *testing.T, s store.Store, term time.Duration, heard ...int64) store.Renewal {
	t.Helper()
	return must[store.Renewal](t)(s.Renew(t.Context(), store.Lease{Term: term, Address: "[::1]:1", Version: "v0\n", Digests: "é", Heard: heard}))
}

// claimed claims a key that must go to a host.
func claimed(t *testing.T, s store.Store, key store.OwnerKey, host string) store.Owner {
	t.Helper()
	o := must[store.Owner](t)(s.Claim(t.Context(), key))
	if o.Host != host {
		t.Fatalf("claimed by %q, the owner of %s is %+v", host, key, o)
	}
	return o
}

func claims(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	home, a, b := join(store.DefaultHost), join("a"), join("b\n'é")
	for _, s := range []store.Store{home, a, b} {
		if r := renewed(t, s, alive); r.Wait != 0 {
			t.Fatalf("a new host has to wait for %s", r.Wait)
		}
	}
	equal(t, "alive", renewed(t, a, alive).Alive, []string{"a", "b\n'é", store.DefaultHost})
	key := store.ChannelOwner("irc")
	before := must[store.Owner](t)(a.Owner(t.Context(), key))
	o, err := a.Claim(t.Context(), key)
	wantErr(t, err, store.ErrOwned)
	equal(t, "the owner of what is not claimed", o, before)
	claimed(t, home, key, store.DefaultHost)
	equal(t, "the owner of what was its own", must[store.Owner](t)(a.Owner(t.Context(), key)), before)

	epoch := before.Epoch
	next := func(s store.Store, host string) {
		t.Helper()
		o := claimed(t, s, key, host)
		if o.Epoch <= epoch || o.Incarnation == "" {
			t.Fatalf("claimed %+v after epoch %d", o, epoch)
		}
		epoch = o.Epoch
		equal(t, "claimed twice", claimed(t, s, key, host), o)
		for _, other := range []store.Store{home, a, b} {
			if other != s {
				wantErr(t, second(other.Claim(t.Context(), key)), store.ErrOwned)
			}
		}
	}
	renewed(t, home, dead)
	equal(t, "alive after a death", renewed(t, a, alive).Alive, []string{"a", "b\n'é"})
	next(a, "a")
	renewed(t, home, alive)
	wantErr(t, second(home.Claim(t.Context(), key)), store.ErrOwned)
	check(t, b.Release(t.Context(), key)) // not its own
	check(t, a.Release(t.Context(), key))
	if o := must[store.Owner](t)(b.Owner(t.Context(), key)); o.Host != "" || o.Epoch < epoch {
		t.Fatalf("released, its owner is %+v, and its epoch was %d", o, epoch)
	}
	next(b, "b\n'é")
	check(t, b.Leave(t.Context()))
	equal(t, "alive after one has left", renewed(t, a, alive).Alive, []string{"a", store.DefaultHost})
	next(home, store.DefaultHost)
	renewed(t, home, dead)
	next(a, "a")
	check(t, second(home.Take(t.Context(), key))) // from the living
	renewed(t, home, alive)
	equal(t, "what was taken", must[store.Owner](t)(a.Owner(t.Context(), key)).Host, store.DefaultHost)
	wantErr(t, second(a.Claim(t.Context(), key)), store.ErrOwned)
}

// givenUp checks that a host gives up a key that it had from the beginning: another can claim it, and work from before writes nothing.
func givenUp(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	home, a := join(store.DefaultHost), join("a")
	v := must[setting](t)(settle(t.Context(), home, "irc", "#flynn"))
	renewed(t, home, alive)
	seen := map[store.OwnerKey]bool{}
	for n, w := range fencedWrites {
		if w.key == nil || seen[w.key(v)] {
			continue
		}
		key := w.key(v)
		seen[key] = true
		first := claimed(t, home, key, store.DefaultHost)
		ctx := store.WithEpoch(t.Context(), key, first.Epoch)
		check(t, w.do(ctx, home, v, 10*n))
		check(t, home.Release(t.Context(), key))
		wantErr(t, w.do(ctx, home, v, 10*n+1), store.ErrFenced)
		again := claimed(t, home, key, store.DefaultHost)
		if again.Epoch <= first.Epoch {
			t.Fatalf("%s: claimed again, the owner is %+v, and was %+v", w.name, again, first)
		}
		wantErr(t, w.do(ctx, home, v, 10*n+2), store.ErrFenced)
		check(t, home.Release(t.Context(), key))
		renewed(t, a, alive)
		claimed(t, a, key, "a")
		wantErr(t, second(home.Claim(t.Context(), key)), store.ErrOwned)
	}
}

// earlierEpochs checks that work of an earlier epoch writes nothing, even if the same host owns the key again.
func earlierEpochs(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	home, a := join(store.DefaultHost), join("a")
	v := must[setting](t)(settle(t.Context(), home, "irc", "#flynn"))
	for n, w := range fencedWrites {
		if w.key == nil {
			continue
		}
		key := w.key(v)
		now := must[store.Owner](t)(home.Take(t.Context(), key))
		ctx := store.WithEpoch(t.Context(), key, now.Epoch)
		check(t, w.do(ctx, home, v, 10*n))
		check(t, home.Release(t.Context(), key))
		wantErr(t, w.do(ctx, home, v, 10*n+1), store.ErrFenced)
		check(t, second(a.Claim(t.Context(), key)))
		wantErr(t, w.do(ctx, home, v, 10*n+2), store.ErrFenced)
		check(t, a.Release(t.Context(), key))
		again := claimed(t, home, key, store.DefaultHost)
		before := must[string](t)(kept(t.Context(), home, v))
		wantErr(t, w.do(ctx, home, v, 10*n+3), store.ErrFenced)
		for _, any := range fencedWrites { // nor what needs no owner
			if any.name != "a taking" {
				wantErr(t, any.do(ctx, home, v, 1000+n), store.ErrFenced)
			}
		}
		equal(t, "what is kept", must[string](t)(kept(t.Context(), home, v)), before)
		check(t, w.do(store.WithEpoch(t.Context(), key, again.Epoch), home, v, 10*n+4))
	}
}

func signals(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	told := func(s store.Store, want ...store.Signal) []int64 {
		t.Helper()
		is := must[bool](t)(s.Signaled(t.Context()))
		got := renewed(t, s, alive).Signals
		var ids []int64
		for i := range got {
			if lost := got[i].Kind == store.SignalLost; lost {
				equal(t, "the epoch of the new owner", got[i].Epoch, must[store.Owner](t)(s.Owner(t.Context(), got[i].Key)).Epoch)
			}
			ids, got[i].ID, got[i].Epoch = append(ids, got[i].ID), 0, 0
		}
		if !slices.Equal(got, want) || is != (len(want) > 0) {
			t.Fatalf("signals are %+v (%v), want %+v", got, is, want)
		}
		return ids
	}
	m := msg("e1")
	key := store.ConversationOwner(m.ConversationKey())
	append := func(s store.Store, event string, state mailbox.InboxState) {
		t.Helper()
		m.EventID = event
		_, _, err := s.AppendInbox(t.Context(), m, state, "")
		check(t, err)
	}
	renewed(t, a, alive)
	append(b, "of a host without a lease", mailbox.InboxNew)
	equal(t, "owner", must[store.Owner](t)(a.Owner(t.Context(), key)).Host, store.DefaultHost)
	renewed(t, b, alive)
	append(a, "that is dropped", mailbox.InboxDropped)
	equal(t, "owner", must[store.Owner](t)(a.Owner(t.Context(), key)).Host, store.DefaultHost)
	append(a, "e1", mailbox.InboxNew)
	o := must[store.Owner](t)(b.Owner(t.Context(), key))
	equal(t, "owner", o.Host, "a")
	append(a, "e2", mailbox.InboxNew)
	append(b, "e2", mailbox.InboxNew) // delivered again
	told(a)
	append(b, "e3", mailbox.InboxNoted)
	append(b, "that is dropped as well", mailbox.InboxDropped)
	work := store.Signal{Kind: store.SignalWork, Key: key}
	told(a, work)
	ids := told(a, work)
	append(b, "e4", mailbox.InboxNew)
	renewed(t, a, alive, ids...)
	ids = told(a, work)
	renewed(t, b, alive, ids...) // nothing of its own
	renewed(t, a, alive, told(a, work)...)
	told(a)
	told(b)
	equal(t, "the owner in the end", must[store.Owner](t)(b.Owner(t.Context(), key)), o)

	irc := store.ChannelOwner(m.Channel)
	claimed(t, b, irc, "b")
	check(t, a.CommitTurn(t.Context(), turnlog.Commit{Turn: turnIn(m, "t1"), Replies: []message.Reply{reply("r1")}}))
	check(t, second(a.AddReplies(t.Context(), "command", []message.Reply{reply("r2")})))
	check(t, second(a.AddReplies(t.Context(), "command", []message.Reply{reply("r2")}))) // is there
	check(t, second(b.AddReplies(t.Context(), "command", []message.Reply{reply("r3")})))
	renewed(t, b, alive, told(b, store.Signal{Kind: store.SignalWork, Key: irc}, store.Signal{Kind: store.SignalWork, Key: irc})...)

	check(t, a.Stop(t.Context(), key)) // its own
	check(t, b.Stop(t.Context(), key))
	renewed(t, a, alive, told(a, store.Signal{Kind: store.SignalStop, Key: key})...)
	told(b)

	renewed(t, a, dead)
	append(b, "e5", mailbox.InboxNew)
	claimed(t, b, key, "b")
	told(a, store.Signal{Kind: store.SignalLost, Key: key})
	check(t, b.Leave(t.Context()))
	renewed(t, a, alive, told(a, store.Signal{Kind: store.SignalLost, Key: key}, store.Signal{Kind: store.SignalVacant})...) // its epoch stays
	told(a)
	check(t, a.Leave(t.Context()))
	if is := must[bool](t)(a.Signaled(t.Context())); is {
		t.Error("there are signals for a host that has left")
	}
}

// counts are told to all other hosts that are alive, with their next renewal, until they have heard them.
func counts(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b, c := join("a"), join("b"), join("c")
	for _, s := range []store.Store{a, b} {
		renewed(t, s, alive)
	}
	var told []store.Count
	for i, of := range []string{"", "'", `\`, "a\nb", "é😀", "%s?1", "<&>", strings.Repeat("x", 1000)} {
		told = append(told, store.Count{Of: of, N: int64(i + 1)})
	}
	for i := range 300 { // more than one statement takes
		told = append(told, store.Count{Of: fmt.Sprint("sender ", i), N: 1})
	}
	_, err := a.Renew(t.Context(), store.Lease{Term: alive, Counts: told})
	check(t, err)
	if is := must[bool](t)(b.Signaled(t.Context())); is {
		t.Error("a count makes a host renew its lease at once")
	}
	var ids []int64
	for range 2 { // until they are heard
		ids = nil
		var got []store.Count
		for _, s := range renewed(t, b, alive).Signals {
			equal(t, "the kind", s.Kind, store.SignalCounted)
			ids, got = append(ids, s.ID), append(got, store.Count{Of: string(s.Key), N: s.Epoch})
		}
		equal(t, "the number of counts", len(got), len(told))
		for _, c := range told {
			if !slices.Contains(got, c) {
				t.Errorf("%+v is not told", c)
			}
		}
	}
	if again := renewed(t, b, alive, ids...).Signals; len(again) > 0 {
		t.Errorf("%d heard counts come again", len(again))
	}
	if got := renewed(t, a, alive).Signals; len(got) > 0 {
		t.Errorf("a host hears of its own: %d", len(got))
	}
	if got := renewed(t, c, alive).Signals; len(got) > 0 {
		t.Errorf("a host hears what was told before it lived: %d", len(got))
	}
}

// turnIn returns a running turn in the conversation of a message.
func turnIn(m message.Message, id string) turnlog.Turn {
	v := turn(id)
	v.Channel, v.Conversation = m.Channel, m.Conversation
	return v
}

// waitsForItself checks that a host that is started again learns how long the one before may act.
func waitsForItself(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a := join("a")
	if w := renewed(t, a, alive).Wait; w != 0 {
		t.Fatalf("the first waits for %s", w)
	}
	a = join("a")
	for range 2 { // its own renewals are not those of the one before
		if w := renewed(t, a, 2*alive).Wait; w > alive || w < alive-time.Minute {
			t.Fatalf("the second waits for %s, want almost %s", w, alive)
		}
	}
	a = join("a")
	if w := renewed(t, a, dead).Wait; w > 2*alive || w < 2*alive-time.Minute {
		t.Fatalf("the third waits for %s, want almost %s", w, 2*alive)
	}
	if w := renewed(t, join("a"), alive).Wait; w != 0 {
		t.Fatalf("one after a dead one waits for %s", w)
	}
	a = join("a")
	renewed(t, a, 2*alive)
	check(t, a.Leave(t.Context())) // the one before may still act
	b := join("b")
	renewed(t, b, alive)
	check(t, second(a.Take(t.Context(), store.UpkeepOwner)))
	wantErr(t, second(b.Claim(t.Context(), store.UpkeepOwner)), store.ErrOwned)
	a = join("a")
	if w := renewed(t, a, dead).Wait; w > alive || w < alive-time.Minute {
		t.Fatalf("one after one that has left early waits for %s, want almost %s", w, alive)
	}
	a = join("a")
	renewed(t, a, alive)
	check(t, a.Leave(t.Context()))
	if w := renewed(t, join("a"), alive).Wait; w != 0 {
		t.Fatalf("one after one that has left waits for %s", w)
	}
}

func controls(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	v := must[setting](t)(settle(t.Context(), join(store.DefaultHost), "irc", "#flynn"))
	last := renewed(t, a, alive).Control
	grows := func(name string, err error) {
		t.Helper()
		check(t, err)
		r := renewed(t, a, alive)
		if n := len(r.Signals); n == 0 || r.Signals[n-1].Kind != store.SignalControl {
			t.Errorf("%s: the signals are %+v", name, r.Signals)
		}
		now := r.Control
		if now <= last || renewed(t, a, alive).Control != now {
			t.Errorf("%s: control is %d after %d", name, now, last)
		}
		last = now
	}
	grows("halt", b.SetHalt(t.Context(), turnlog.Halt{On: true, By: "web:owner", Since: noon}))
	grows("resume", b.SetHalt(t.Context(), turnlog.Halt{}))
	grows("a pairing", second(b.PutPairing(t.Context(), pairings.Pairing{Sender: "irc:zoe", ID: "1"}, "", nil)))
	grows("an elevation", b.Elevate(t.Context(), consent.Elevation{Conversation: "irc:#flynn", State: "on", Began: noon, Until: noon}, auditRow(consent.AuditElevated, "x", noon)))
	grows("its end", b.EndElevation(t.Context(), "irc:#flynn", noon, auditRow(consent.AuditElevatedEnd, "x", noon)))
	grows("an answer", b.MoveApproval(t.Context(), v.approval, consent.ApprovalPending, consent.ApprovalGranted, "irc:ann", noon))
	check(t, b.PutCode(t.Context(), signins.Code{Digest: "c", Sender: "irc:ann", Event: "e", Asked: noon, Expires: noon.Add(time.Hour)}))
	grows("a sign-in", second(b.UseCode(t.Context(), "c", signins.SignIn{ID: "s", Digest: "d", Began: noon, Used: noon})))
	grows("the end of a sign-in", b.DropSignIn(t.Context(), "s"))
	_, _, err := b.AppendInbox(t.Context(), msg("e"), mailbox.InboxNew, "")
	check(t, err)
	equal(t, "control after a message", renewed(t, a, alive).Control, last)
}

// fencedMembers checks that a replaced host is out of the membership as well.
func fencedMembers(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	old := join("a")
	renewed(t, old, alive)
	key := store.ChannelOwner("irc")
	claimed(t, old, key, "a")
	now := join("a")
	renewed(t, now, alive)
	for name, err := range map[string]error{
		"renew":   second(old.Renew(t.Context(), store.Lease{Term: 9 * alive})),
		"claim":   second(old.Claim(t.Context(), key)),
		"take":    second(old.Take(t.Context(), key)),
		"release": old.Release(t.Context(), key),
		"stop":    old.Stop(t.Context(), key),
		"leave":   old.Leave(t.Context()),
	} {
		if !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s of a host that was replaced: %v", name, err)
		}
	}
	claimed(t, now, key, "a")
}
