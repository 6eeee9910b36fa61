package policy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestAChangeIsFoundWithoutAWatch is a system that has no more watches to give.
func TestAChangeIsFoundWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, version(0, 1))
		swaps := make(chan Status, 10)
		e, err := New(t.Context(), Config{
			Sources: []Source{tool("p", path)}, Log: slog.New(slog.DiscardHandler), OnSwap: func(s Status) { swaps <- s },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			if err := e.follow(ctx, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		before := e.Status()[0].Digest
		replace(t, path, version(0, 2))
		if s := <-swaps; s.Error != "" || s.Digest == before {
			t.Errorf("the new file is not in force: %+v", s)
		}
		cancel()
		done.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAPanicWhileLoadingRefusesTheFile is a bug in the loader that some module brings to light.
func TestAPanicWhileLoadingRefusesTheFile(t *testing.T) {
	path := write(t, version(0, 1))
	e := engine(t, tool("p", path))
	e.cfg.Gate = GateFunc(func(context.Context, Candidate) error { panic("a bug") })
	replace(t, path, version(0, 2))
	e.Refresh(t.Context())
	s := e.Status()[0]
	if s.State != StateStale || !strings.Contains(s.Error, "a bug") {
		t.Fatalf("state %s, error %q", s.State, s.Error)
	}
	chain := e.Pin()
	defer chain.Release()
	if _, records := chain.Tool(t.Context(), toolFacts()); records[0].Error != "" {
		t.Fatalf("the old module fails: %s", records[0].Error)
	}
}

// TestStatusDoesNotWaitForAChange asks while a change is under way, which may take as long as a compiler takes.
func TestStatusDoesNotWaitForAChange(t *testing.T) {
	path := write(t, version(0, 1))
	e := engine(t, tool("p", path))
	before := e.Status()[0]
	reached, leave := make(chan struct{}), make(chan struct{})
	e.cfg.Gate = GateFunc(func(context.Context, Candidate) error {
		close(reached)
		<-leave
		return nil
	})
	replace(t, path, version(0, 2))
	var change sync.WaitGroup
	change.Go(func() { e.Refresh(t.Context()) })
	<-reached
	if s := e.Status()[0]; s.Digest != before.Digest || s.State != StateRunning {
		t.Errorf("status is %+v in the middle of a change", s)
	}
	close(leave)
	change.Wait()
	if s := e.Status()[0]; s.Digest == before.Digest {
		t.Error("the change did not take effect")
	}
}

// changingGate asks what its proofs say.
type changingGate struct {
	proofs *string
	GateFunc
}

func (g changingGate) Proofs(Source) string { return *g.proofs }

// TestARefusedFileIsTriedAgainWhenItsProofsChange: the cases were wrong, not the file.
func TestARefusedFileIsTriedAgainWhenItsProofsChange(t *testing.T) {
	path := write(t, version(0, 1))
	e := engine(t, tool("p", path))
	proofs, tries := "wrong cases", 0
	e.cfg.Gate = changingGate{&proofs, func(context.Context, Candidate) error {
		tries++
		if proofs == "wrong cases" {
			return errors.New("a case fails")
		}
		return nil
	}}
	replace(t, path, version(0, 2))
	for range 2 {
		e.Refresh(t.Context())
		if s := e.Status()[0]; s.State != StateStale || tries != 1 {
			t.Fatalf("state %s after %d tries", s.State, tries)
		}
	}
	proofs = "right cases"
	for range 2 {
		e.Refresh(t.Context())
		if s := e.Status()[0]; s.State != StateRunning || tries != 2 {
			t.Fatalf("state %s, error %q after %d tries", s.State, s.Error, tries)
		}
	}
}
