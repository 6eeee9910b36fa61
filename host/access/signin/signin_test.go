package signin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/signins"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// fixture is a service over a real store, with a clock of its own.
type fixture struct {
	*Service
	t   *testing.T
	dir string
	now time.Time
	db  *sqlite.Store
}

func newFixture(t *testing.T) *fixture {
	d := &fixture{t: t, dir: t.TempDir(), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	d.restart()
	t.Cleanup(func() { d.db.Close() })
	return d
}

func (d *fixture) restart() {
	d.t.Helper()
	var err error
	if d.db != nil {
		if err := d.db.Close(); err != nil {
			d.t.Fatal(err)
		}
	}
	if d.db, err = sqlite.Open(context.Background(), d.dir); err != nil {
		d.t.Fatal(err)
	}
	if d.Service, err = Open(d.t.Context(), Config{Store: d.db, Now: func() time.Time { return d.now }}); err != nil {
		d.t.Fatal(err)
	}
}

// in signs ann in and returns her token.
func (d *fixture) in(event string) (string, signins.SignIn) {
	d.t.Helper()
	code, err := d.Offer(d.t.Context(), "irc:ann", event)
	if err != nil {
		d.t.Fatal(err)
	}
	token, in, err := d.Use(d.t.Context(), code)
	if err != nil || in.Sender != "irc:ann" || token == code || len(token) < 43 {
		d.t.Fatalf("%q %+v %v", token, in, err)
	}
	return token, in
}

func (d *fixture) has(token string) bool {
	_, ok := d.Of(token)
	return ok
}

func TestCodes(t *testing.T) {
	d := newFixture(t)
	first, _ := d.Offer(t.Context(), "irc:ann", "irc:1")
	second, err := d.Offer(t.Context(), "irc:ann", "irc:2")
	if err != nil || first == second {
		t.Fatal(first, second, err)
	}
	d.restart()
	for _, c := range []string{first, "", second[1:], second + "A", strings.ToUpper(second), strings.Repeat("x", 1<<20), "' OR 1=1 --", "\x00"} {
		if _, _, err := d.Use(t.Context(), c); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%.20q: %v", c, err)
		}
	}
	if _, _, err := d.Use(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Use(t.Context(), second); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a link is good twice: %v", err)
	}
	late, _ := d.Offer(t.Context(), "irc:ann", "irc:3")
	d.now = d.now.Add(CodeValid)
	if _, _, err := d.Use(t.Context(), late); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old link is good: %v", err)
	}
}

func TestWrongCodesAreLimited(t *testing.T) {
	d := newFixture(t)
	var limited bool
	for range 3 * wrongBurst {
		_, _, err := d.Use(t.Context(), "wrong")
		limited = limited || errors.Is(err, ErrLimited)
	}
	if !limited {
		t.Error("wrong codes are not limited")
	}
	d.in("irc:1") // fails if a right code is refused
}

func TestTokens(t *testing.T) {
	d := newFixture(t)
	token, in := d.in("irc:1")
	if d.has("") || d.has(token[1:]) || d.has(in.Digest) || d.has(in.ID) {
		t.Error("something else than the token is taken for it")
	}
	d.now = d.now.Add(29 * 24 * time.Hour)
	if !d.has(token) {
		t.Error("the sign-in ended early")
	}
	d.restart()
	d.now = d.now.Add(29 * 24 * time.Hour)
	if !d.has(token) || !d.Lasts(in.ID) {
		t.Error("its use did not prolong the sign-in over a restart")
	}
	d.now = d.now.Add(Unused)
	if d.has(token) || d.Lasts(in.ID) || len(d.List("")) != 0 {
		t.Error("an unused sign-in lasts")
	}
	d.restart()
	if rows, err := d.db.ListSignIns(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("the ended sign-in is kept: %+v %v", rows, err)
	}
}

func TestEnds(t *testing.T) {
	d := newFixture(t)
	one, first := d.in("irc:1")
	two, second := d.in("irc:2")
	if err := d.End(t.Context(), first.ID, "irc:bob", "irc:bob"); !errors.Is(err, store.ErrNotFound) || !d.has(one) {
		t.Errorf("somebody else ends the sign-in: %v", err)
	}
	if err := d.End(t.Context(), first.ID, "irc:ann", "irc:ann"); err != nil || d.has(one) || d.Lasts(first.ID) || !d.has(two) {
		t.Errorf("%v", err)
	}
	if err := d.End(t.Context(), first.ID, "", "web:owner"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it ends twice: %v", err)
	}
	code, _ := d.Offer(t.Context(), "irc:ann", "irc:3")
	if err := d.EndAll(t.Context(), "irc:ann", "web:owner"); err != nil || d.has(two) || d.Lasts(second.ID) {
		t.Errorf("%v", err)
	}
	if _, _, err := d.Use(t.Context(), code); err == nil {
		t.Error("a link outlives the end of all sign-ins")
	}
	d.restart()
	if d.has(one) || d.has(two) {
		t.Error("an ended sign-in is back after a restart")
	}
}

func TestMostSignIns(t *testing.T) {
	d := newFixture(t)
	var tokens []string
	for range Most + 1 {
		d.now = d.now.Add(time.Minute)
		token, _ := d.in("irc:1")
		tokens = append(tokens, token)
	}
	if d.has(tokens[0]) || !d.has(tokens[1]) || len(d.List("irc:ann")) != Most || len(d.List("irc:bob")) != 0 {
		t.Errorf("ann has %d sign-ins", len(d.List("irc:ann")))
	}
}
