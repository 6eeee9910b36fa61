package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/store"
)

// tells has a host renew its lease with a revision of the configuration, and returns why it gets no keys.
func tells(t *testing.T, s store.Store, revision int64, term time.Duration) store.Idle {
	t.Helper()
	what := fmt.Sprint("of ", revision)
	return must[store.Renewal](t)(s.Renew(t.Context(), store.Lease{Term: term, Digests: what, Shared: what, Revision: revision})).Idle
}

// standing is where a host stands.
func standing(t *testing.T, s store.Store) store.Standing {
	t.Helper()
	return must[store.Standing](t)(s.Standing(t.Context()))
}

// proposed has a host propose a revision on one.
func proposed(t *testing.T, s store.Store, base int64, within time.Duration) store.Revision {
	t.Helper()
	return must[store.Revision](t)(s.Propose(t.Context(), store.Revision{
		Base: base, Was: fmt.Sprint("of ", base), Digest: "é\n", Before: []byte("a = \"\\u0000é\"\n"), After: []byte{},
	}, within))
}

// became is what has become of a revision.
func became(t *testing.T, s store.Store, number int64) store.Revision {
	t.Helper()
	return must[store.Revision](t)(s.Revision(t.Context(), number))
}

func agrees(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b, c, away := join("a"), join("b\n'é"), join("c"), join("d")
	for _, s := range []store.Store{a, b, c} {
		equal(t, "a host begins", tells(t, s, 0, alive), store.Idle(""))
	}
	tells(t, away, 0, dead)
	equal(t, "before the first", standing(t, a), store.Standing{})
	r := proposed(t, a, 0, time.Hour)
	equal(t, "the first", []any{r.State, r.Host, r.Base, r.Was, r.Digest, string(r.Before), string(r.After), len(r.Hosts)},
		[]any{store.RevisionOpen, "a", int64(0), "of 0", "é\n", "a = \"\\u0000é\"\n", "", 1})
	equal(t, "its host has voted", standing(t, a).Open, int64(0))
	equal(t, "another has not", standing(t, b).Open, r.Number)
	if !must[bool](t)(b.Signaled(t.Context())) && b.Shared() && must[store.Renewal](t)(b.Renew(t.Context(), store.Lease{Term: alive, Digests: "of 0", Shared: "of 0"})).Control == 0 {
		t.Error("a host is not told that it has to vote")
	}
	wantErr(t, second(c.Propose(t.Context(), store.Revision{Was: "of 0"}, time.Hour)), store.ErrConflict)
	check(t, b.Vote(t.Context(), r.Number, ""))
	check(t, a.SettleRevision(t.Context(), r.Number))
	equal(t, "one has not voted", became(t, a, r.Number).State, store.RevisionOpen)

	// A host that is started again has not voted, whatever it said before.
	b = join("b\n'é")
	tells(t, b, 0, alive)
	check(t, c.Vote(t.Context(), r.Number, ""))
	equal(t, "an incarnation has not voted", became(t, a, r.Number).State, store.RevisionOpen)
	equal(t, "it is told", standing(t, b).Open, r.Number)
	equal(t, "nothing is agreed on", standing(t, b).Agreed, int64(0))
	check(t, b.Vote(t.Context(), r.Number, ""))
	equal(t, "all have voted", became(t, a, r.Number).State, store.RevisionAgreed)
	equal(t, "they are", became(t, a, r.Number).Hosts, []string{"a", "b\n'é", "c"})
	check(t, c.Vote(t.Context(), r.Number, "too late"))
	equal(t, "a vote that is late", became(t, a, r.Number).State, store.RevisionAgreed)
	equal(t, "the host that was away", standing(t, away), store.Standing{Agreed: r.Number})
	wantErr(t, second(a.Propose(t.Context(), store.Revision{Base: 0, Was: "of 0"}, time.Hour)), store.ErrConflict)

	// The death of a host that was waited for decides, as soon as somebody looks.
	for _, s := range []store.Store{a, b, c} {
		equal(t, "taken", tells(t, s, r.Number, alive), store.Idle(""))
	}
	next := proposed(t, b, r.Number, time.Hour)
	check(t, a.Vote(t.Context(), next.Number, ""))
	tells(t, c, r.Number, dead)
	check(t, a.SettleRevision(t.Context(), next.Number))
	equal(t, "without the dead", became(t, a, next.Number).State, store.RevisionAgreed)

	// A host alone is not asked.
	for _, s := range []store.Store{a, b} {
		tells(t, s, next.Number, alive)
	}
	tells(t, b, next.Number, dead)
	last := proposed(t, a, next.Number, time.Hour)
	equal(t, "alone", []any{last.State, len(last.Hosts)}, []any{store.RevisionAgreed, 1})
	wantErr(t, second(a.Revision(t.Context(), 1<<40)), store.ErrNotFound)
}

func refuses(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b := join("a"), join("b")
	for _, s := range []store.Store{a, b} {
		tells(t, s, 0, alive)
	}
	wantReason := func(number int64, want string) {
		t.Helper()
		if r := became(t, a, number); r.State != store.RevisionRefused || !strings.Contains(r.Reason, want) {
			t.Fatalf("it is %s: %q, and not refused because of %q", r.State, r.Reason, want)
		}
		equal(t, "what is agreed on", standing(t, b), store.Standing{})
	}
	r := proposed(t, a, 0, time.Hour)
	check(t, b.Vote(t.Context(), r.Number, "no \"é\"\nat all"))
	wantReason(r.Number, "host b: no \"é\"\nat all")
	check(t, b.Vote(t.Context(), r.Number, ""))
	wantReason(r.Number, "host b")

	r = proposed(t, a, 0, time.Nanosecond)
	check(t, b.SettleRevision(t.Context(), r.Number))
	wantReason(r.Number, "host b is alive and has not answered")
	r = proposed(t, a, 0, time.Nanosecond)
	check(t, b.Vote(t.Context(), r.Number, ""))
	wantReason(r.Number, "time was over")
	r = proposed(t, b, 0, time.Nanosecond)
	wantErr(t, second(a.Propose(t.Context(), store.Revision{Base: 7, Was: "of 0"}, time.Hour)), store.ErrConflict) // it settles the one before, too

	// A person decides for all.
	r = proposed(t, a, 0, time.Hour)
	agreed := must[int64](t)(b.Agree(t.Context(), store.Revision{Digest: "of all"}))
	if was := became(t, a, r.Number); was.State != store.RevisionRefused || !strings.Contains(was.Reason, "host b") || agreed <= r.Number {
		t.Errorf("%+v, and agreed is %d", was, agreed)
	}
	equal(t, "the one who decided", must[store.Renewal](t)(b.Renew(t.Context(), store.Lease{Term: alive, Digests: "of 0", Shared: "of 0", Revision: agreed})).Idle, store.Idle(""))
	equal(t, "the other", tells(t, a, 0, alive), store.IdleDiffers)
	equal(t, "it stands", standing(t, a), store.Standing{Agreed: agreed})
	if _, err := a.Propose(t.Context(), store.Revision{Was: "of 0"}, time.Hour); !errors.Is(err, store.ErrConflict) {
		t.Errorf("proposed on what is past: %v", err)
	}
}

func untaken(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	a, b, c := join("a"), join("b"), join("c")
	for _, s := range []store.Store{a, b} {
		tells(t, s, 0, alive)
	}
	tells(t, c, 0, dead)
	r := proposed(t, a, 0, time.Hour)
	check(t, b.Vote(t.Context(), r.Number, ""))
	equal(t, "agreed", became(t, a, r.Number).State, store.RevisionAgreed)
	equal(t, "one that is about to take it", tells(t, b, 0, alive), store.Idle(""))
	claimed(t, b, store.UpkeepOwner, "b")
	equal(t, "one that was away", tells(t, c, 0, alive), store.IdleDiffers)
	wantErr(t, second(c.Claim(t.Context(), store.MemoryOwner)), store.ErrOwned)
	b = join("b")
	equal(t, "one that died in between", tells(t, b, 0, alive), store.IdleDiffers)
	equal(t, "where it stands", standing(t, b), store.Standing{Agreed: r.Number})
	equal(t, "it has taken it", tells(t, b, r.Number, alive), store.Idle(""))
	equal(t, "the one that was away has it", tells(t, c, r.Number, alive), store.Idle(""))

	// One that comes back alone decides nothing before it has taken what was agreed on.
	for _, s := range []store.Store{a, b, c} {
		check(t, s.Leave(t.Context()))
	}
	a = join("a")
	equal(t, "back, alone", tells(t, a, 0, alive), store.IdleDiffers)
	equal(t, "with the revision", tells(t, a, r.Number, alive), store.Idle(""))

	// The configuration of a host that differs is its own affair.
	b = join("b")
	other := store.Lease{Term: alive, Digests: "other", Shared: "other", Revision: r.Number}
	equal(t, "it differs", must[store.Renewal](t)(b.Renew(t.Context(), other)).Idle, store.IdleDiffers)
	own := must[store.Revision](t)(b.Propose(t.Context(), store.Revision{Base: r.Number, Was: "other"}, time.Hour))
	equal(t, "no revision", own.Number, int64(0))
	other.Shared = fmt.Sprint("of ", r.Number) // it lacks a plugin, say
	must[store.Renewal](t)(b.Renew(t.Context(), other))
	own = must[store.Revision](t)(b.Propose(t.Context(), store.Revision{Base: r.Number, Was: other.Shared}, time.Hour))
	equal(t, "a revision", own.State, store.RevisionOpen)
}

// voter is a host as revisionsAtRandom knows it.
type voter struct {
	store.Store
	alive bool
	taken int64          // the revision that it has
	vote  string         // of this incarnation, on the revision that was proposed last
	yes   map[int64]bool // the revisions that this incarnation was for
}

// revisionsAtRandom has hosts propose, vote, die, start again and take what was agreed on, in any order. A revision is agreed on when all that are
// alive are for it, and at no other moment; and who has not taken it gets no keys.
func revisionsAtRandom(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(rt *rapid.T) {
		join := shared(t, rt)
		hosts := map[string]*voter{}
		for _, name := range names {
			hosts[name] = &voter{Store: join(name), alive: true, yes: map[int64]bool{}}
			tells(t, hosts[name], 0, alive)
		}
		var open, agreed int64
		state := map[int64]store.RevisionState{}
		settle := func() {
			if open == 0 {
				return
			}
			state[open] = store.RevisionAgreed
			for _, h := range hosts {
				if h.vote == "no" {
					state[open], open = store.RevisionRefused, 0
					return
				}
			}
			for _, h := range hosts {
				if h.alive && h.vote != "yes" {
					state[open] = store.RevisionOpen
					return
				}
			}
			agreed, open = open, 0
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "host")
			h := hosts[name]
			switch what := rapid.SampledFrom([]string{"propose", "vote", "vote", "vote", "vote against", "die", "start", "take", "take"}).Draw(rt, "what"); what {
			case "propose":
				if !h.alive {
					continue
				}
				r, err := h.Propose(t.Context(), store.Revision{Base: h.taken, Was: fmt.Sprint("of ", h.taken)}, time.Hour)
				if settle(); open != 0 || h.taken != agreed { // the store looks at the one before, too
					if !errors.Is(err, store.ErrConflict) {
						rt.Fatalf("proposed on %d, while %d is open and %d agreed on: %+v, %v", h.taken, open, agreed, r, err)
					}
					continue
				}
				if err != nil {
					rt.Fatal(err)
				}
				open = r.Number
				for _, other := range hosts {
					other.vote = ""
				}
				h.vote, h.yes[open] = "yes", true
				settle()
			case "vote", "vote against":
				if open == 0 || h.vote == "no" {
					continue
				}
				reason := ""
				h.vote, h.yes[open] = "yes", true
				if what == "vote against" {
					h.vote, reason = "no", "because"
				}
				check(t, h.Vote(t.Context(), open, reason))
				settle()
			case "die":
				tells(t, h, h.taken, dead)
				h.alive = false
			case "start":
				*h = voter{Store: join(name), alive: true, taken: h.taken, yes: map[int64]bool{}}
				tells(t, h, h.taken, alive)
			case "take":
				if h.alive {
					h.taken = agreed
				}
			}
			for number, want := range state {
				if got := became(t, h, number).State; got != want {
					rt.Fatalf("revision %d is %s, want %s", number, got, want)
				}
			}
			if s := standing(t, h); s.Agreed != agreed || (s.Open == open) != (h.vote == "" || open == 0) {
				rt.Fatalf("host %s stands at %+v: %d is open, its vote is %q, %d is agreed on", name, s, open, h.vote, agreed)
			}
			if !h.alive {
				continue
			}
			idle := tells(t, h, h.taken, alive)
			if h.taken == agreed && idle != "" || h.taken != agreed && !h.yes[agreed] && idle != store.IdleDiffers {
				rt.Fatalf("host %s has %d of %d, and is idle %q", name, h.taken, agreed, idle)
			}
		}
	})
}
