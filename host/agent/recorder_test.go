package agent

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model/usage"
)

// TestNothingOfACommitIsLostWhereTwoAreJoined looks at every field, those of later days included.
func TestNothingOfACommitIsLostWhereTwoAreJoined(t *testing.T) {
	of := reflect.TypeFor[turnlog.Commit]()
	for n := range of.NumField() {
		field := of.Field(n)
		if field.Name == "Turn" { // the next one's, which is the newer state
			continue
		}
		filled := reflect.New(of).Elem()
		switch f := filled.Field(n); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		default:
			f.SetInt(1)
		}
		some, none := filled.Interface().(turnlog.Commit), turnlog.Commit{}
		for side, got := range map[string]turnlog.Commit{"first": joined(some, none), "next": joined(none, some)} {
			if reflect.ValueOf(got).Field(n).IsZero() {
				t.Errorf("%s of the %s commit is lost", field.Name, side)
			}
		}
	}
}

// slowStore takes commits one after the other, and refuses some. A commit that was held comes on a goroutine of its timer.
type slowStore struct {
	mu      sync.Mutex
	refuses int
	commits []turnlog.Commit
	usage   []usage.Row
}

func (s *slowStore) CommitTurn(_ context.Context, c turnlog.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses--; s.refuses >= 0 {
		return errors.New("database or disk is full")
	}
	s.commits = append(s.commits, c)
	return nil
}

// steps are how many steps each commit had.
func (s *slowStore) steps() (n []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commits {
		n = append(n, len(c.Steps))
	}
	return n
}

func (s *slowStore) AddUsage(_ context.Context, rows []usage.Row) error {
	s.usage = append(s.usage, rows...)
	return nil
}

// TestWhatIsHeldIsCommittedOnce holds a result back, and looks at what the store gets of it, whenever the next commit comes.
func TestWhatIsHeldIsCommittedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		after func(r *recorder)
		want  []int // steps of each commit
	}{
		"the next commit takes it along": {func(r *recorder) { r.step(say("done")); r.commit(t.Context()) }, []int{2}},
		"nothing follows for long":       {func(*recorder) { time.Sleep(time.Second) }, []int{1}},
		"the next one comes too late":    {func(r *recorder) { time.Sleep(time.Second); r.step(say("done")); r.commit(t.Context()) }, []int{1, 1}},
		"another one is held":            {func(r *recorder) { r.step(say("done")); r.commitSoon(t.Context()); time.Sleep(time.Second) }, []int{2}},
		"the host goes down":             {func(r *recorder) { r.letGo(t.Context()) }, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{}
				r := &recorder{store: s, log: slog.New(slog.DiscardHandler), clock: time.Now, row: turnlog.Turn{ID: "t1"}}
				r.step(transcript.UserStep{})
				if err := r.commitSoon(t.Context()); err != nil || len(s.steps()) > 0 {
					t.Fatalf("%v, commits of %v steps at once", err, s.steps())
				}
				c.after(r)
				synctest.Wait()
				if got := s.steps(); !slices.Equal(got, c.want) {
					t.Errorf("commits have %v steps, want %v", got, c.want)
				}
			})
		})
	}
}

// TestACommitIsTriedAgain while the store has trouble, and ends with the host alone.
func TestACommitIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{refuses: 3}
		r := &recorder{store: s, log: slog.New(slog.DiscardHandler), clock: time.Now}
		r.step(transcript.UserStep{})
		if err := r.commit(t.Context()); err != nil || len(s.commits) != 1 || len(r.pending.Steps) != 0 {
			t.Fatalf("%v, %d commits, %d steps left", err, len(s.commits), len(r.pending.Steps))
		}
		s.refuses = 1 << 30
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.step(say("done"))
		r.taskUsage.pay([]usage.Row{{Turn: "t1"}})
		if err := r.commit(ctx); err == nil || len(r.pending.Steps) != 1 {
			t.Fatalf("%v, %d steps left", err, len(r.pending.Steps))
		}
		if r.keepUsage(ctx); len(s.usage) != 1 {
			t.Errorf("%d rows of usage are kept", len(s.usage))
		}
	})
}
