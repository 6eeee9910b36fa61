package config

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openHolder(t *testing.T) (h *Holder, path string, getenv func(string) string) {
	t.Helper()
	dir := t.TempDir()
	path = write(t, filepath.Join(dir, "flynn.toml"), minimal, 0o600)
	getenv = environ("HOME", dir)
	h, err := NewHolder(path, getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return h, path, getenv
}

func TestReload(t *testing.T) {
	h, path, _ := openHolder(t)
	var calls []string
	h.Subscribe(recorder("first", &calls, nil))
	h.Subscribe(recorder("second", &calls, nil))
	write(t, path, minimal+"[budgets]\nsteps_per_turn = 7\n", 0o600)
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := h.Current()
	if cfg.Generation != 2 || cfg.Budgets.StepsPerTurn != 7 {
		t.Errorf("generation %d with %d steps", cfg.Generation, cfg.Budgets.StepsPerTurn)
	}
	if got := strings.Join(calls, " "); got != "stage-first stage-second commit-first commit-second" {
		t.Errorf("calls: %s", got)
	}
	kept, err := os.ReadFile(filepath.Join(cfg.Store.Dir, lastGoodName))
	if err != nil || !strings.Contains(string(kept), "steps_per_turn = 7") {
		t.Errorf("last good copy: %v\n%s", err, kept)
	}
}

// recorder is a stage that writes down what is called and fails with err.
func recorder(name string, calls *[]string, err error) Stage {
	call := func(what string) func() { return func() { *calls = append(*calls, what+"-"+name) } }
	return func(context.Context, *Config, *Config) (commit, rollback func(), _ error) {
		call("stage")()
		return call("commit"), call("rollback"), err
	}
}

func TestReloadFailureKeepsTheOldGeneration(t *testing.T) {
	broken := errors.New("no room")
	tests := map[string]struct {
		text  string
		stage error
		calls string
		want  string
	}{
		"bad file":  {text: "bogus = 1", want: "unknown key"},
		"bad stage": {text: minimal + "#", stage: broken, calls: "stage-a stage-b stage-c rollback-b rollback-a", want: "no room"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, path, _ := openHolder(t)
			old := h.Current()
			var calls []string
			h.Subscribe(recorder("a", &calls, nil))
			h.Subscribe(recorder("b", &calls, nil))
			h.Subscribe(recorder("c", &calls, test.stage))
			write(t, path, test.text, 0o600)
			err := h.Reload(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "generation 1 stays in force") {
				t.Errorf("error is %v", err)
			}
			if h.Current() != old {
				t.Error("the old generation is gone")
			}
			if got := strings.Join(calls, " "); got != test.calls {
				t.Errorf("calls: %s, want %s", got, test.calls)
			}
			write(t, path, minimal, 0o600)
		})
	}
}

func TestUnsubscribe(t *testing.T) {
	h, _, _ := openHolder(t)
	var calls []string
	unsubscribe := h.Subscribe(recorder("gone", &calls, nil))
	h.Subscribe(recorder("stays", &calls, nil))
	unsubscribe()
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, " "); got != "stage-stays commit-stays" {
		t.Errorf("calls: %s", got)
	}
}

// watched runs the holder and tells each generation that it stages.
func watched(t *testing.T, h *Holder) (generations <-chan *Config, hup chan<- os.Signal) {
	t.Helper()
	staged, signals := make(chan *Config, 16), make(chan os.Signal)
	h.Subscribe(func(_ context.Context, _, new *Config) (commit, rollback func(), err error) {
		return func() { staged <- new }, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, signals) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return staged, signals
}

func next(t *testing.T, generations <-chan *Config) *Config {
	t.Helper()
	select {
	case cfg := <-generations:
		return cfg
	case <-time.After(time.Minute): // without events for changes it takes pollEvery and two looks
		t.Fatal("no new generation")
		return nil
	}
}

func TestRunFollowsTheFile(t *testing.T) {
	h, path, _ := openHolder(t)
	generations, hup := watched(t, h)

	write(t, path, minimal+"[budgets]\nsteps_per_turn = 8\n", 0o600)
	if got := next(t, generations).Budgets.StepsPerTurn; got != 8 {
		t.Errorf("written in place: %d steps", got)
	}
	fresh := write(t, path+".new", minimal+"[budgets]\nsteps_per_turn = 9\n", 0o600)
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
	if got := next(t, generations).Budgets.StepsPerTurn; got != 9 {
		t.Errorf("replaced: %d steps", got)
	}
	hup <- syscall.SIGHUP
	if got := next(t, generations).Generation; got != 4 {
		t.Errorf("after SIGHUP without a change: generation %d, want 4", got)
	}
}

func TestRunFollowsALink(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		write(t, filepath.Join(dir, version, "flynn.toml"), minimal+"[budgets]\nsteps_per_turn = "+version+"\n", 0o600)
	}
	link := func(version string) {
		t.Helper()
		if err := errors.Join(os.Symlink(version, filepath.Join(dir, "new")), os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
	}
	link("1")
	path := filepath.Join(dir, "flynn.toml")
	if err := os.Symlink("data/flynn.toml", path); err != nil {
		t.Fatal(err)
	}
	h, err := NewHolder(path, environ("HOME", dir), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	generations, _ := watched(t, h)
	link("2")
	if got := next(t, generations).Budgets.StepsPerTurn; got != 2 {
		t.Errorf("%d steps, want 2", got)
	}
}

func TestOpenLastGood(t *testing.T) {
	h, path, getenv := openHolder(t)
	log := slog.New(slog.DiscardHandler)
	write(t, path, minimal+"[budgets]\nsteps_per_turn = 9\n", 0o600)
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, path, "bogus = 1\n", 0o600)
	again, err := OpenLastGood(path, getenv, log)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Current().Budgets.StepsPerTurn; got != 9 {
		t.Errorf("the last good configuration has %d steps, want 9", got)
	}
	generations, _ := watched(t, again)
	write(t, path, minimal+"[budgets]\nsteps_per_turn = 11\n", 0o600)
	if got := next(t, generations).Budgets.StepsPerTurn; got != 11 {
		t.Errorf("the mended file has %d steps, want 11", got)
	}
}

func TestOpenLastGoodWithoutACopy(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "flynn.toml"), "bogus = 1\nstore.dir = 'here'\n", 0o600)
	_, err := OpenLastGood(path, environ("HOME", dir), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("error is %v", err)
	}
	if got := storeDirOf(path, environ("HOME", dir)); got != filepath.Join(dir, "here") {
		t.Errorf("store is %s", got)
	}
}

func TestUnseen(t *testing.T) {
	h, path, _ := openHolder(t)
	write(t, path, minimal, 0o600)
	if h.unseen() != "" {
		t.Error("the same text is taken for a change")
	}
	write(t, path, "bogus = 1", 0o600)
	if h.unseen() == "" {
		t.Error("a change is not seen")
	}
	if err := h.Reload(t.Context()); err == nil {
		t.Error("a bad file was loaded")
	}
	if h.unseen() != "" {
		t.Error("a bad file would be tried again and again")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if h.unseen() != "" {
		t.Error("a missing file is taken for a change")
	}
}

// TestReloadsSideBySide: reloads queue up, and each makes a generation of its own.
func TestReloadsSideBySide(t *testing.T) {
	h, _, _ := openHolder(t)
	const reloads = 8
	done := make(chan error, reloads)
	for range reloads {
		go func() { done <- h.Reload(context.Background()) }()
	}
	for range reloads {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := h.Current().Generation; got != reloads+1 {
		t.Errorf("generation %d, want %d", got, reloads+1)
	}
}

// TestStageDeadline: a stage that ignores its deadline cannot make a generation count.
func TestStageDeadline(t *testing.T) {
	h, _, _ := openHolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	rolledBack := false
	h.Subscribe(func(context.Context, *Config, *Config) (commit, rollback func(), err error) {
		cancel()
		return nil, func() { rolledBack = true }, nil
	})
	if err := h.Reload(ctx); !errors.Is(err, context.Canceled) || !rolledBack || h.Current().Generation != 1 {
		t.Errorf("error %v, rolled back %v, generation %d", err, rolledBack, h.Current().Generation)
	}
}

// TestAChangeIsFoundWithoutAWatch is a system that has no more watches to give.
func TestAChangeIsFoundWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, path, _ := openHolder(t)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { h.watch(ctx, nil, nil, nil) })
		synctest.Wait()
		write(t, path, minimal+"[budgets]\nsteps_per_turn = 8\n", 0o600)
		time.Sleep(2 * pollEvery)
		if got := h.Current().Budgets.StepsPerTurn; got != 8 {
			t.Errorf("%d steps a turn, want 8", got)
		}
		cancel()
		done.Wait()
	})
}
