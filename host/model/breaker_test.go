package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// shop is a provider that fails while it is closed, and always on messages that hold "poison".
type shop struct {
	mu     sync.Mutex
	closed bool
	kind   Kind
	asked  int
}

func (s *shop) Stream(_ context.Context, req Request, _ func(Delta)) (Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if text := req.Messages[0].Text; s.closed || strings.Contains(text, "poison") {
		return Response{}, &Error{Kind: s.kind, Provider: "shop", Status: 500, Err: errors.New("internal server error")}
	}
	return Response{Message: Message{Role: Assistant, Text: "served"}, Stop: StopEnd}, nil
}

func (s *shop) set(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
}

// ask asks for one person and says how long it took.
func (s *shop) ask(t *testing.T, set *Set, who, text string) (took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	_, err = set.Stream(t.Context(), "default", Request{Source: who, Messages: []Message{{Role: User, Text: text}}}, nil)
	return time.Since(began), err
}

func openShop(t *testing.T, kind Kind) (*shop, *Set) {
	t.Helper()
	s := &shop{kind: kind}
	set, err := NewSet(map[string]config.Model{"default": {Provider: "shop", Model: "m"}}, Options{
		Providers: map[string]Constructor{"shop": func(config.Model) (Provider, error) { return s, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, set
}

// TestOnePersonsFailuresRefuseNobody has one person whose messages the provider cannot digest, and others beside.
func TestOnePersonsFailuresRefuseNobody(t *testing.T) {
	for _, kind := range []Kind{Overloaded, RateLimited, Cut, Timeout, BadAnswer, Auth} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, set := openShop(t, kind)
				for i := range 12 {
					if _, err := s.ask(t, set, "mallory", "poison"); err == nil {
						t.Fatal("poison was served")
					}
					if i%4 == 3 {
						if took, err := s.ask(t, set, fmt.Sprint("bob", i), "hello"); err != nil || took > 0 {
							t.Errorf("after %d failures of another person: %v after %s", i+1, err, took)
						}
					}
				}
			})
		})
	}
}

// TestAnOutageHoldsMessagesBack closes the provider for everybody, and opens it again while messages wait.
func TestAnOutageHoldsMessagesBack(t *testing.T) {
	for _, kind := range []Kind{Overloaded, Unreachable} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, set := openShop(t, kind)
				s.set(true)
				for _, who := range []string{"ann", "bob", "cid"} {
					if _, err := s.ask(t, set, who, "hello"); err == nil {
						t.Fatal("served by a provider that is down")
					}
				}
				if st := set.Status()[0].State; st != Open {
					t.Fatalf("after the failures of three people the breaker is %s", st)
				}
				before := s.asked
				var all sync.WaitGroup
				var mu sync.Mutex
				var waits []time.Duration
				for i := range 20 {
					all.Go(func() {
						took, err := s.ask(t, set, fmt.Sprint("person", i), "hello")
						mu.Lock()
						defer mu.Unlock()
						if waits = append(waits, took); err != nil {
							t.Errorf("person %d: %v after %s", i, err, took)
						}
					})
				}
				all.Go(func() { s.ask(t, set, "mallory", "poison") })
				time.Sleep(10 * time.Second)
				s.set(false)
				all.Wait()
				if worst := slices.Max(waits); worst > maxHold {
					t.Errorf("somebody waited %s, more than %s", worst, maxHold)
				}
				if asked := s.asked - before; asked > 20+2*maxAttempts {
					t.Errorf("%d calls for 21 messages", asked)
				}
			})
		})
	}
}

// TestAPoisonedProbeHoldsBackNobody has the first probe after an outage be a message that always fails.
func TestAPoisonedProbeHoldsBackNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, set := openShop(t, Overloaded)
		s.set(true)
		for _, who := range []string{"ann", "bob", "cid"} { // by then it opens for maxOpen
			s.ask(t, set, who, "hello")
		}
		s.set(false)
		var all sync.WaitGroup
		for _, who := range []string{"dora", "eve"} {
			all.Go(func() {
				time.Sleep(time.Second) // behind mallory, who is held back until the moment of the probe
				if took, err := s.ask(t, set, who, "hello"); err != nil || took > maxOpen {
					t.Errorf("%s: %v after %s", who, err, took)
				}
			})
		}
		time.Sleep(time.Until(set.tiers["default"].breaker.until))
		if _, err := s.ask(t, set, "mallory", "poison"); err == nil {
			t.Error("poison was served")
		}
		all.Wait()
	})
}

// TestALongOutageIsSaid bounds how long a message is held back.
func TestALongOutageIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, set := openShop(t, Overloaded)
		s.set(true)
		for _, who := range []string{"ann", "bob", "cid"} {
			s.ask(t, set, who, "hello")
		}
		before := s.asked
		took, err := s.ask(t, set, "dora", "hello")
		if kindOf(err) != Overloaded || took > maxHold+10*time.Second || s.asked == before {
			t.Errorf("%v after %s and %d calls", err, took, s.asked-before)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = set.Stream(ctx, "default", Request{Source: "eve", Messages: []Message{{Text: "x"}}}, nil)
		if err == nil || time.Since(began) > time.Second {
			t.Errorf("a call of a second took %s: %v", time.Since(began), err)
		}
	})
}
