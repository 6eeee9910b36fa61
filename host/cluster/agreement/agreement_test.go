package agreement

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

// fake is a store that one host sees; the test is the other hosts.
type fake struct {
	mu       sync.Mutex
	alone    bool
	fails    error // of every call
	standing store.Standing
	all      map[int64]store.Revision
	votes    map[int64]string
	settles  int
	decides  func(*store.Revision) // by a vote or a settling
}

func (f *fake) Shared() bool { return !f.alone }

func (f *fake) Standing(context.Context) (store.Standing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.standing, f.fails
}

func (f *fake) Revision(_ context.Context, number int64) (store.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[number], f.fails
}

func (f *fake) Propose(_ context.Context, r store.Revision, _ time.Duration) (store.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return store.Revision{}, f.fails
	}
	r.Number, r.State, r.Host = int64(len(f.all)+1), store.RevisionOpen, "a"
	f.all[r.Number] = r
	return r, nil
}

func (f *fake) Vote(_ context.Context, number int64, reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.votes[number] = reason
	f.standing.Open = 0
	f.decide(number)
	return f.fails
}

func (f *fake) SettleRevision(_ context.Context, number int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settles++
	f.decide(number)
	return f.fails
}

func (f *fake) decide(number int64) {
	if r, is := f.all[number]; is && f.decides != nil && r.State == store.RevisionOpen {
		f.decides(&r)
		f.all[number] = r
	}
}

func (f *fake) Agree(context.Context, store.Revision) (int64, error) { return 7, f.fails }

func (f *fake) Hosts(context.Context) ([]store.HostState, error) {
	return []store.HostState{{ID: "a", Self: true, Alive: true}, {ID: "b", Alive: true}, {ID: "c"}}, f.fails
}

const before = "[limits]\nsender_sessions = 5\n[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n"

var after = strings.Replace(before, "5", "6", 1)

// world is a host with its file, and its store.
type world struct {
	*fake
	t      *testing.T
	path   string
	keeper *Keeper
	refuse error // of what prepares a configuration
}

func newWorld(t *testing.T, text string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, path: filepath.Join(dir, "flynn.toml"), fake: &fake{all: map[int64]store.Revision{}, votes: map[int64]string{}}}
	w.write(text)
	getenv := func(key string) string { return map[string]string{"HOME": dir}[key] }
	log := slog.New(slog.DiscardHandler)
	h, err := config.NewHolder(w.path, getenv, log)
	if err != nil {
		t.Fatal(err)
	}
	h.Subscribe(func(context.Context, *config.Config, *config.Config) (commit, rollback func(), err error) {
		return nil, nil, w.refuse
	})
	w.keeper, err = Open(t.Context(), Config{Store: w, Holder: h, Editor: edit.InHost(h, edit.EditorConfig{Getenv: getenv, Log: log}), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// has checks the file, and what is in force.
func (w *world) has(text string, sessions int) {
	w.t.Helper()
	now, err := os.ReadFile(w.path)
	if err != nil || string(now) != text {
		w.t.Errorf("the file is %q, %v", now, err)
	}
	if n := w.keeper.cfg.Holder.Current().Limits.SenderSessions; n != sessions {
		w.t.Errorf("in force is %d", n)
	}
}

// edits has a person change the configuration at this host.
func (w *world) edits(value any, key ...string) error {
	_, err := w.keeper.cfg.Editor.Edit(w.t.Context(), edit.Author{}, func(f *edit.File, _ *config.Config) error { return f.Set(value, key...) })
	return err
}

// proposed returns the change of another host.
func (w *world) proposed() store.Revision {
	w.t.Helper()
	r := store.Revision{Number: 1, Host: "b", State: store.RevisionOpen, Was: w.keeper.cfg.Holder.Current().SharedDigest(), Before: []byte(before), After: []byte(after)}
	other := newWorld(w.t, after)
	r.Digest = other.keeper.cfg.Holder.Current().SharedDigest()
	return r
}

func agree(r *store.Revision) { r.State, r.Hosts = store.RevisionAgreed, []string{"a", "b"} }

func refuse(r *store.Revision) { r.State, r.Reason = store.RevisionRefused, "host b: it rains" }

func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error %v does not say %q", err, text)
		}
	}
}

func TestAHostAloneAsksNobody(t *testing.T) {
	w := newWorld(t, before)
	w.alone, w.fails = true, errors.New("asked")
	k, err := Open(t.Context(), w.keeper.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := k.Run(ctx); err != nil || k.Lacks() != nil {
		t.Errorf("%v, %q", err, k.Lacks())
	}
}

func TestAChangeIsProposed(t *testing.T) {
	for _, c := range []struct {
		name   string
		world  func(*world)
		value  any
		key    string
		errors []string // empty if it is made
		asks   bool
	}{
		{"agreed", func(w *world) { w.decides = agree }, 6, "sender_sessions", nil, true},
		{"refused", func(w *world) { w.decides = refuse }, 6, "sender_sessions", []string{"no host has it, because not all can take it: host b: it rains"}, true},
		{"nobody decides", func(*world) {}, 6, "sender_sessions", []string{"it is not known whether the hosts agree", "flynn cluster status"}, true},
		{"the store fails", func(w *world) { w.fails = errors.New("gone") }, 6, "sender_sessions", []string{"it is not known whether the hosts agree", "gone"}, false},
		{"another change", func(w *world) { w.fails = store.Conflict("host b is faster") }, 6, "sender_sessions", []string{"host b is faster"}, false},
		{"it cannot be prepared", func(w *world) { w.refuse = errors.New("it snows") }, 6, "sender_sessions", []string{"it snows"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, before)
				c.world(w)
				began := time.Now()
				err := w.edits(c.value, "limits", c.key)
				if time.Since(began) > within+2*patience {
					t.Errorf("it took %s", time.Since(began))
				}
				if len(w.all) > 0 != c.asks || c.asks && w.settles == 0 {
					t.Errorf("asked %d times, settled %d times", len(w.all), w.settles)
				}
				if c.errors == nil {
					if err != nil || w.keeper.cfg.Holder.Current().Revision != 1 {
						t.Errorf("revision %d: %v", w.keeper.cfg.Holder.Current().Revision, err)
					}
					w.has(after, 6)
					return
				}
				wants(t, err, c.errors...)
				w.has(before, 5)
			})
		})
	}
	t.Run("a secret", func(t *testing.T) {
		w := newWorld(t, before+"[channels.irc]\nplugin = \"irc\"\nserver = \"http://127.0.0.1:1/\"\n")
		wants(t, w.edits("http://ann:pass"+"word@127.0.0.1:1/", "channels", "irc", "server"), "channels.irc.server looks like a secret")
		if len(w.all) > 0 {
			t.Error("it was sent")
		}
	})
	t.Run("the host stops", func(t *testing.T) {
		w := newWorld(t, before)
		w.keeper.stop()
		wants(t, w.edits(6, "limits", "sender_sessions"), "flynn stops")
	})
}

func TestAHostVotes(t *testing.T) {
	for _, c := range []struct {
		name   string
		text   string
		change func(*world, *store.Revision)
		vote   string // part of the reason; empty if it votes for it
		taken  bool
	}{
		{"for it", before, func(w *world, _ *store.Revision) { w.decides = agree }, "", true},
		{"for it, and it is refused", before, func(w *world, _ *store.Revision) { w.decides = refuse }, "", false},
		{"it differs", before, func(_ *world, r *store.Revision) { r.Was = "another" }, "flynn cluster accept there", false},
		{"it missed one", before, func(_ *world, r *store.Revision) { r.Base = 3 }, "it has yet to take the change before", false},
		{"it cannot prepare it", before, func(w *world, _ *store.Revision) { w.refuse = errors.New("it snows\n\n  a lot") }, "it snows; a lot", false},
		{"the result is another one", before, func(_ *world, r *store.Revision) { r.Digest = "another" }, "it would not have the same configuration as host b", false},
		{"what is sent is damaged", before, func(_ *world, r *store.Revision) { r.After = []byte("= = =") }, "toml", false},
		{"it requires signatures", before + "[policy_trust]\nrequire_signature = true\nkeys = [\"ed25519:" + strings.Repeat("A", 43) + "=\"]\n", func(*world, *store.Revision) {}, "it requires signatures", false},
		{"its file is broken", before, func(w *world, _ *store.Revision) { w.write("= = =") }, "flynn.toml", false},
		{"its file is gone", before, func(w *world, _ *store.Revision) { os.Remove(w.path) }, "no such file", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.text)
			r := w.proposed()
			c.change(w, &r)
			w.all[1], w.standing.Open = r, 1
			if err := w.keeper.look(t.Context()); err != nil {
				t.Fatal(err)
			}
			vote, voted := w.votes[1]
			if !voted || (vote == "") != (c.vote == "") || !strings.Contains(vote, c.vote) || strings.Contains(vote, "\n") {
				t.Errorf("voted %v: %q", voted, vote)
			}
			if c.taken {
				w.has(after, 6)
			} else if n := w.keeper.cfg.Holder.Current().Limits.SenderSessions; n != 5 {
				t.Errorf("in force is %d", n)
			}
		})
	}
}

// TestAHostTakesWhatItMissed, and tries again what it cannot take.
func TestAHostTakesWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, before)
		r := w.proposed()
		agree(&r)
		w.all[1], w.standing.Agreed = r, 1
		w.refuse = errors.New("it snows")
		look := func() {
			t.Helper()
			if err := w.keeper.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		look()
		if lacks := strings.Join(w.keeper.Lacks(), ""); !strings.Contains(lacks, "revision 1 of the configuration, which the hosts have agreed on: ") || !strings.Contains(lacks, "it snows") {
			t.Errorf("it lacks %q", lacks)
		}
		w.has(before, 5)
		w.refuse = nil
		time.Sleep(retryAfter - 1)
		look()
		if w.keeper.Lacks() == nil {
			t.Error("it has tried again too soon")
		}
		time.Sleep(time.Nanosecond)
		look()
		if lacks := w.keeper.Lacks(); lacks != nil || w.keeper.cfg.Holder.Current().Revision != 1 {
			t.Errorf("it lacks %q, and has revision %d", lacks, w.keeper.cfg.Holder.Current().Revision)
		}
		w.has(after, 6)

		// The next one says nothing new to it.
		r.Number = 2
		w.all[2], w.standing.Agreed = r, 2
		look()
		if w.keeper.cfg.Holder.Current().Revision != 2 {
			t.Error("it does not have the number of what it has")
		}
		w.has(after, 6)
	})
}

func TestOthersAreThoseThatAreAlive(t *testing.T) {
	w := newWorld(t, before)
	names, err := w.keeper.Others(t.Context())
	if err != nil || strings.Join(names, " ") != "b" {
		t.Errorf("%q, %v", names, err)
	}
	if err := w.keeper.Accept(t.Context()); err != nil || w.keeper.cfg.Holder.Current().Revision != 7 {
		t.Errorf("accepted as %d: %v", w.keeper.cfg.Holder.Current().Revision, err)
	}
}
