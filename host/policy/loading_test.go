package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLoadingPoliciesAreNamed adds policies to a chain: while they load, side by side, Status names them, and every decision is made by
// the chain before.
func TestLoadingPoliciesAreNamed(t *testing.T) {
	arrived, pass := make(chan string, 3), make(chan struct{})
	e, err := New(t.Context(), Config{
		Sources: []Source{tool("old", write(t, version(1, 1)))},
		Gate: GateFunc(func(_ context.Context, c Candidate) error {
			if c.Source.Name == "old" {
				return nil
			}
			arrived <- c.Source.Name
			<-pass
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	first := e.Pin()
	before := first.Digest()
	first.Release()
	sources := []Source{tool("old", e.Status()[0].Path), tool("new1", write(t, version(2, 1))), tool("new2", write(t, version(3, 1)))}
	done := make(chan error, 1)
	go func() { done <- e.Configure(context.Background(), sources) }()
	for range 2 {
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("the policies are not loaded side by side")
		}
	}
	if got, want := states(e), []string{"old running", "new1 loading", "new2 loading"}; !slices.Equal(got, want) {
		t.Errorf("while they load there are %q, want %q", got, want)
	}
	s := e.Pin()
	if _, records := s.Tool(t.Context(), toolFacts()); s.Digest() != before || len(records) != 1 {
		t.Errorf("while they load %d policies decide", len(records))
	}
	s.Release()
	close(pass)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := states(e), []string{"old running", "new1 running", "new2 running"}; !slices.Equal(got, want) {
		t.Errorf("afterwards there are %q, want %q", got, want)
	}
}

func states(e *Engine) (all []string) {
	for _, s := range e.Status() {
		all = append(all, fmt.Sprintf("%s %s", s.Name, s.State))
	}
	return all
}
