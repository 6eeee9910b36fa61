// Package platform is shared by the fakes of chat platforms that tests of plugins and `flynn plugin dev conform` use instead of the real ones.
//
// Start with State, which is a fake's lock and notifies of changes: waits, and reports of what people see. Faults are the next failures,
// Listener keeps track of connections to break them, and JSON answers a request. A fake is started with a TB, usually a test; Main runs it
// as the program that conform.toml names. The protocol of the platform is up to the fake.
package platform

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// TB is the part of testing.TB that a fake needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// State is the lock of a fake. The zero value works.
type State struct {
	sync.Mutex
	changed chan struct{} // closed and replaced at every change; nil if nobody waits
	report  func(fake.Report)
}

// Change locks for a change: call it as defer s.Change()(). The returned function wakes everybody who waits and unlocks.
func (s *State) Change() (done func()) {
	s.Lock()
	return func() {
		s.Wake()
		s.Unlock()
	}
}

// Wake wakes everybody who waits. The lock is held.
func (s *State) Wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Next returns a channel that is closed at the next change. The lock is held.
func (s *State) Next() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Changed returns a channel that is closed at the next change.
func (s *State) Changed() <-chan struct{} {
	s.Lock()
	defer s.Unlock()
	return s.Next()
}

// Wait waits until a condition holds, or ctx ends, and reports whether it holds. It evaluates it with the lock held, at every change.
func (s *State) Wait(ctx context.Context, holds func() bool) bool {
	for {
		s.Lock()
		next, ok := s.Next(), holds()
		s.Unlock()
		if ok {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

// patience bounds every wait of a test.
const patience = time.Minute

// Await is Wait for tests: if the condition does not hold within a minute, the test fails.
func (s *State) Await(t TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !s.Wait(ctx, holds) {
		t.Fatalf("the fake platform waits for: %s: not within %s", what, patience)
	}
}

// Until is Await for a condition that takes the lock itself.
func (s *State) Until(t TB, what string, holds func() bool) {
	t.Helper()
	s.Await(t, what, func() bool {
		s.Unlock()
		defer s.Lock()
		return holds()
	})
}

// Watch makes a fake report what people see of the plugin. The function is called with the lock held.
func (s *State) Watch(report func(fake.Report)) {
	s.Lock()
	defer s.Unlock()
	s.report = report
}

// Shown reports that people see a new message. The lock is held.
func (s *State) Shown(text string) { s.tell(fake.Report{Shown: &fake.Shown{Text: text}}) }

// Edited reports that people see a changed message. The lock is held.
func (s *State) Edited(text string) { s.tell(fake.Report{Edited: &fake.Shown{Text: text}}) }

// Typing reports that people see the plugin typing. The lock is held.
func (s *State) Typing() { s.tell(fake.Report{Typing: true}) }

func (s *State) tell(r fake.Report) {
	if s.report != nil {
		s.report(r)
	}
}

// Faults are the next failures, each used once and at one place: a method or a path. The zero value has none.
type Faults[F any] struct{ list []fault[F] }

type fault[F any] struct {
	where string
	what  F
}

// Add appends faults.
func (q *Faults[F]) Add(where string, list ...F) {
	for _, f := range list {
		q.list = append(q.list, fault[F]{where, f})
	}
}

// Take removes the first fault whose place fits, and reports whether there was one.
func (q *Faults[F]) Take(fits func(where string) bool) (what F, ok bool) {
	i := slices.IndexFunc(q.list, func(f fault[F]) bool { return fits(f.where) })
	if i < 0 {
		return what, false
	}
	what = q.list[i].what
	q.list = slices.Delete(q.list, i, i+1)
	return what, true
}

// At returns a function for Take that fits one place.
func At(place string) func(string) bool { return func(where string) bool { return where == place } }

// JSON answers a request with a status and a value.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the other side notices a broken connection
}

// Pause waits and reports whether done was still open at the end.
func Pause(d time.Duration, done <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
		return true
	case <-done:
		return false
	}
}
