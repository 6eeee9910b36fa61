package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// around is all that a Keeper works with but the store.
type around struct {
	running, delegated bool
	retention          config.Retention
	mu                 sync.Mutex
	asked              []string // what the keeper asked for
	files              files
}

func (a *around) note(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, what)
}

func (a *around) did() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func (a *around) Running(string) bool   { return a.running }
func (a *around) Delegated(string) bool { return a.delegated }

func (a *around) Stop(scope string) bool {
	a.note("stop " + scope)
	a.running = false
	return true
}

func (a *around) Forget(key message.SessionKey) { a.note("turns forget " + string(key)) }

func (a *around) Alone(_ string, do func()) { do() }

func (a *around) Prune(context.Context) error {
	a.note("prune pairings")
	return nil
}

func (a *around) End(_ context.Context, conversation message.ConversationKey, by, _ string) (bool, error) {
	a.note("elevated mode ends in " + string(conversation) + " by " + by)
	return true, nil
}

func (a *around) Restore(workspaceKey message.WorkspaceKey, sender message.SenderKey) {
	a.note("quota restore " + string(workspaceKey) + " " + string(sender))
}

// engine is where sessions have sandboxes.
type engine struct{ *around }

func (e engine) Forget(_ context.Context, workspaces map[message.WorkspaceKey]bool) error {
	e.note(fmt.Sprint("sandboxes forget ", slices.Sorted(maps.Keys(workspaces))))
	return nil
}

func keep(t *testing.T, s *sqlite.Store, m Media) (*Keeper, *around) {
	t.Helper()
	if m == nil {
		files, err := media.New(media.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		m = files
	}
	a := &around{}
	return NewKeeper(Config{
		Store: s, Turns: a, Queue: a, Sandboxes: engine{a}, Files: &a.files, Quota: a, Media: m, Pairings: a, Elevations: a,
		Retention: func() config.Retention { return a.retention }, Log: slog.New(slog.DiscardHandler),
	}), a
}

// answered makes a session of one turn, in which a file was said where digest names one.
func answered(t *testing.T, s *sqlite.Store, key message.SessionKey, at time.Time, digest string) {
	t.Helper()
	in := key.Parse()
	id := store.NewID(at)
	err := s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: turnlog.Turn{
			ID: id, Session: key, Agent: in.Agent, Channel: "tg", Conversation: message.Conversation{ID: in.Scope}, Sender: "tg:ann", State: turnlog.TurnDone,
			Started: at, Ended: at,
		},
		Steps: []turnlog.Step{{Turn: id, Kind: turnlog.StepUser, At: at, Data: []byte(`{"said":[{"files":[{"digest":"` + digest + `"}]}]}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDelete(t *testing.T) {
	s := open(t)
	k, a := keep(t, s, nil)
	if err := k.Delete(t.Context(), "tg:ann:a", "web:owner", false); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "flynn session list") {
		t.Errorf("a session that is not there: %v", err)
	}
	answered(t, s, "tg:ann:a", noon, "")
	answered(t, s, "tg:ann:a#2", noon.Add(time.Minute), "")
	a.running = true
	for name, err := range map[string]error{
		"a session": k.Delete(t.Context(), "tg:ann:a", "web:owner", false), "a conversation": k.DeleteConversation(t.Context(), "tg:ann", "web:owner", false),
	} {
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "--stop") {
			t.Errorf("%s while a turn runs: %v", name, err)
		}
	}
	a.running = false
	if err := k.Delete(t.Context(), "tg:ann:a", "web:owner", false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"turns forget tg:ann:a", "sandboxes forget [tg:ann:a]"}; !slices.Equal(a.did(), want) {
		t.Errorf("after the first: %q, want %q", a.did(), want)
	}
	a.asked = nil
	if err := k.DeleteConversation(t.Context(), "tg:ann", "web:owner", false); err != nil {
		t.Fatal(err)
	}
	want := []string{"elevated mode ends in tg:ann by web:owner", "turns forget tg:ann:a#2", "sandboxes forget [tg:ann:a]"}
	if !slices.Equal(a.did(), want) {
		t.Errorf("after the last: %q, want %q", a.did(), want)
	}
	if err := k.DeleteConversation(t.Context(), "tg:ann", "web:owner", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an empty conversation: %v", err)
	}
}

func TestRestoreQuota(t *testing.T) {
	s := open(t)
	answered(t, s, "tg:ann:a#2", noon, "")
	k, a := keep(t, s, nil)
	if err := k.RestoreQuota(t.Context()); err != nil || !slices.Equal(a.did(), []string{"quota restore tg:ann:a tg:ann"}) {
		t.Errorf("%q, %v", a.did(), err)
	}
}

func TestRetention(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	got := retention(config.Retention{ResultsDays: 1, UsageDays: 400}, now)
	want := store.Retention{Blobs: now.Add(-24 * time.Hour), Results: now.Add(-48 * time.Hour), Usage: now.AddDate(0, 0, -401)}
	if got != want {
		t.Errorf("keeps up to %+v, want %+v", got, want)
	}
}

func TestLookFollowsTheConfiguration(t *testing.T) {
	s := open(t)
	now := time.Now()
	days := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	if err := s.AddUsage(t.Context(), []usage.Row{{At: days(500), Day: "d", Agent: "old"}, {At: days(300), Day: "d", Agent: "a"}, {At: days(1), Day: "d", Agent: "a"}}); err != nil {
		t.Fatal(err)
	}
	k, a := keep(t, s, nil)
	for i, c := range []struct{ keep, want int }{{400, 2}, {200, 1}, {0, 1}} {
		a.retention.UsageDays = c.keep
		k.Look(t.Context(), now)
		if left, err := s.ListUsage(t.Context(), usage.Filter{}); err != nil || len(left) != c.want {
			t.Errorf("kept for %d days: %d rows are left (%v), want %d", c.keep, len(left), err, c.want)
		}
		if len(a.did()) != i+1 || a.did()[i] != "prune pairings" {
			t.Errorf("look %d: %q", i, a.did())
		}
	}
}

func TestOldSessionsGo(t *testing.T) {
	s := open(t)
	answered(t, s, "tg:ann:a", noon, "")
	k, a := keep(t, s, nil)
	for _, c := range []struct {
		days    int
		after   time.Duration
		running bool
		left    int
	}{{0, 1000 * time.Hour, false, 1}, {7, 24 * time.Hour, false, 1}, {7, 9 * 24 * time.Hour, true, 1}, {7, 9 * 24 * time.Hour, false, 0}} {
		a.retention.SessionsDays, a.running = c.days, c.running
		k.Look(t.Context(), noon.Add(c.after))
		if list, err := s.Sessions(t.Context(), 10); err != nil || len(list) != c.left {
			t.Errorf("%+v: %d sessions are left (%v)", c, len(list), err)
		}
	}
}

// TestFirstLook: a host that is restarted before an hour is over prunes all the same.
func TestFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &looks{}
		k, a := keep(t, nil, none{})
		k.Store = rows
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		looked := func(when string, prunes, shrinks int) {
			t.Helper()
			synctest.Wait()
			pruned := len(slices.DeleteFunc(a.did(), func(did string) bool { return did != "prune pairings" }))
			if pruned != prunes || int(rows.shrunk.Load()) != shrinks {
				t.Errorf("%s: pruned %d times and shrunk %d times, want %d and %d", when, pruned, rows.shrunk.Load(), prunes, shrinks)
			}
		}
		looked("at the start", 1, 1)
		k.Deleted(ctx, nil)
		looked("after a deletion", 1, 2)
		time.Sleep(lookEvery)
		looked("an hour later", 2, 3)
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// looks is a store that has nothing and counts the looks at it.
type looks struct {
	Store
	shrunk atomic.Int32
}

func (*looks) ListLeftovers(context.Context, turnlog.LeftoverKind) ([]turnlog.Leftover, error) {
	return nil, nil
}
func (*looks) Prune(context.Context, store.Retention) (map[string]int, error) { return nil, nil }
func (l *looks) Shrink(context.Context) (int64, error)                        { l.shrunk.Add(1); return 0, nil }

// none are no files.
type none struct{}

func (none) Drop(context.Context, string) (bool, error) { return true, nil }

// TestFilesOfDeletedSessions: those that another session has stay, and so do those that somebody has just asked for.
func TestFilesOfDeletedSessions(t *testing.T) {
	s, ctx, now := open(t), t.Context(), noon
	files, err := media.New(media.Config{Dir: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	info, err := files.Put(ctx, media.Head{Name: "a.txt"}, strings.NewReader("a file"))
	if err != nil {
		t.Fatal(err)
	}
	k, _ := keep(t, s, files)
	there := func() bool { // which is to ask for it
		_, err := files.Touch(ctx, info.Digest)
		return err == nil
	}
	remove := func(key message.SessionKey) {
		t.Helper()
		if err := s.DeleteSession(ctx, turnlog.Deletion{Key: key, At: noon}); err != nil {
			t.Fatal(err)
		}
		k.clear(ctx)
	}
	answered(t, s, "tg:ann:a", noon, info.Digest)
	answered(t, s, "tg:bob:a", noon, info.Digest)
	now = now.Add(2 * media.Grace)
	remove("tg:ann:a")
	if !there() {
		t.Fatal("the file of another session is gone")
	}
	remove("tg:bob:a")
	if !there() {
		t.Fatal("a file that somebody has just asked for is gone")
	}
	now = now.Add(2 * media.Grace)
	k.clear(ctx)
	if there() {
		t.Error("the file of deleted sessions is still there")
	}
	if left, err := s.ListLeftovers(ctx, turnlog.LeftMedia); err != nil || len(left) != 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}
