package author

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/sdk/need"

	"github.com/flynnhost/flynn/host/policy"
)

func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	_, err := findTool("clang", "clang-22", "clang-14")
	need.Part(t, "clang", err)
	dir := filepath.Join(t.TempDir(), "watched")
	if err := New(dir, "c", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	source, module := filepath.Join(dir, "policy.c"), filepath.Join(dir, "policy.wasm")
	first, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	rounds := make(chan Round, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Watch(ctx, dir, func(r Round) { rounds <- r }) }()
	next := func(what string) Round {
		t.Helper()
		select {
		case r := <-rounds:
			return r
		case <-time.After(time.Minute):
			t.Fatalf("%s: no round", what)
			return Round{}
		}
	}
	if r := next("at the start"); !r.InPlace || r.Report.Passed == 0 || r.Report.Failed != 0 || r.Build <= 0 || r.Test <= 0 {
		t.Fatalf("at the start: %+v", r)
	}
	good, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	// In one step: between the steps of an editor that writes in several, a machine with other work may be as quiet as the end of a save.
	save := func(text string) {
		t.Helper()
		whole := filepath.Join(t.TempDir(), "policy.c")
		if err := errors.Join(os.WriteFile(whole, []byte(text), 0o644), os.Rename(whole, source)); err != nil {
			t.Fatal(err)
		}
	}
	save("nonsense")
	if r := next("nonsense"); r.InPlace || !strings.Contains(r.Error, "policy.c:1") {
		t.Errorf("nonsense: %+v", r)
	}
	save(strings.ReplaceAll(string(first), "flynn_abstain", "flynn_drop")) // every case expects something else
	r := next("another answer")
	if r.InPlace || r.Report.Failed == 0 && r.Error == "" {
		t.Errorf("another answer: %+v", r)
	}
	if now, err := os.ReadFile(module); err != nil || !bytes.Equal(now, good) {
		t.Errorf("a module that is not right took the place of one that is (%v)", err)
	}
	save(string(first))
	if r := next("as it was"); !r.InPlace {
		t.Errorf("as it was: %+v", r)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	dir := copied(t, "office-hours")
	r, err := Bench(t.Context(), dir, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Cases == 0 || r.Compile <= 0 || r.Cached <= 0 || r.Memory <= 0 || r.Fuel.P50 <= 0 || r.Fuel.Max < r.Fuel.P50 || r.Fuel.Worst == "" || r.Fuel.Limit < r.Fuel.Max {
		t.Errorf("report %+v", r)
	}
	for _, run := range r.Runs {
		if run.Decisions == 0 || run.P50 <= 0 || run.P99 < run.P95 || run.P95 < run.P50 || run.PerSecond <= 0 {
			t.Errorf("run %+v", run)
		}
	}
	if len(r.Runs) < 2 {
		t.Errorf("%d runs", len(r.Runs))
	}
}
