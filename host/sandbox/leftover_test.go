package sandbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// leftovers compares what this process and its folders have before sessions come with what they have when all are gone.
type leftovers struct {
	t           *testing.T
	h           sandboxtest.Host
	m           *sandbox.Manager
	root        string
	descriptors []string
	goroutines  goleak.Option
	stop        context.CancelFunc
	stopped     chan error
}

// lookForLeftovers begins, and runs the manager.
func lookForLeftovers(t *testing.T, h sandboxtest.Host, m *sandbox.Manager, config sandbox.Config) *leftovers {
	t.Helper()
	get(t, m, "warm-up", config.Spec) // whatever is made once
	if err := m.Destroy(t.Context(), "warm-up"); err != nil {
		t.Fatal(err)
	}
	l := &leftovers{t: t, h: h, m: m, root: config.WorkspaceRoot, descriptors: openFiles(t, h), goroutines: goleak.IgnoreCurrent(), stopped: make(chan error)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l.stop = cancel
	go func() { l.stopped <- m.Run(ctx) }()
	return l
}

// none ends the manager, once its pools are gone and with them what engine says, and fails if anything is left.
func (l *leftovers) none(engine func() bool) {
	l.t.Helper()
	l.m.SetPools(nil, 0)
	eventually(l.t, "nothing is left on the engine", engine)
	l.stop()
	if err := <-l.stopped; !errors.Is(err, context.Canceled) {
		l.t.Errorf("run ended with %v", err)
	}
	if err := l.m.DestroyAll(l.t.Context()); err != nil {
		l.t.Error(err)
	}
	for _, pattern := range []string{".pool-*/*", ".run-*/control-*", ".run-*/box-*", ".run-*/host-*", ".returning/*"} {
		if left, err := filepath.Glob(filepath.Join(l.root, pattern)); err != nil || len(left) > 0 {
			l.t.Errorf("%s: %q are left (%v)", pattern, left, err)
		}
	}
	// The mark of the process went with DestroyAll.
	eventually(l.t, "no descriptor is left", func() bool { return len(openFiles(l.t, l.h)) <= len(l.descriptors)-1 })
	if now := openFiles(l.t, l.h); l.t.Failed() {
		l.t.Logf("descriptors before %q, now %q", l.descriptors, now)
	}
	eventually(l.t, "no goroutine is left", func() bool { return goleak.Find(l.goroutines) == nil })
}
