package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// builtSpec is a sandbox from a Dockerfile with the steps given.
func builtSpec(t *testing.T, steps string) spec.Spec {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM "+sandboxtest.Image+"\n"+steps+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := sandboxtest.Spec()
	spec.Image, spec.Dockerfile, spec.BuildNetwork = "", file, "none"
	return spec
}

// dropImages removes the images of a test's instance when its manager has ended.
func dropImages(t *testing.T, h sandboxtest.Host, config sandbox.Config) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		images, err := h.Driver.ListImages(ctx, config.Instance)
		if err != nil {
			t.Error(err)
		}
		for _, o := range images {
			if err := h.Driver.RemoveImage(ctx, o.Name); err != nil {
				t.Error(err)
			}
		}
	})
}

// Sessions that need the same image share one build, and hear of it; the pool uses it as well.
func TestSessionsOfABuiltImage(t *testing.T) {
	h := sandboxtest.Engine(t)
	spec := builtSpec(t, "RUN cat /proc/sys/kernel/random/uuid > /id")
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Pools = []sandbox.Pool{{Spec: spec, Size: 1}}; dropImages(t, h, *c) })
	var all sync.WaitGroup
	ids, told := make([]string, 2), make([]string, 2)
	for i, session := range []message.WorkspaceKey{"a", "b"} {
		var mu sync.Mutex
		ctx := machine.WithNotice(t.Context(), func(line string) {
			mu.Lock()
			defer mu.Unlock()
			told[i] += line + "\n"
		})
		all.Go(func() {
			s, err := m.Get(ctx, session, "built", spec)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := s.Exec(ctx, machine.Command{Script: "cat /id"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = string(r.Stdout)
		})
	}
	all.Wait()
	if ids[0] != ids[1] || len(ids[0]) != 37 {
		t.Errorf("got %q", ids)
	}
	for i := range told {
		if !strings.Contains(told[i], "building image") {
			t.Errorf("session %d was told %q", i, told[i])
		}
	}
	if images, err := h.Driver.ListImages(t.Context(), config.Instance); err != nil || len(images) != 1 {
		t.Errorf("images: %+v, %v", images, err)
	}
}

// A session that is destroyed while its image is built ends the build, and what waits for it.
func TestDestroyEndsABuild(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	spec := builtSpec(t, "RUN echo begun; sleep 600")
	endBuild(t, m, spec, func(ctx context.Context) error { return m.Destroy(ctx, "s") })
	endBuild(t, m, spec, m.DestroyAll)
	if images, err := h.Driver.ListImages(t.Context(), config.Instance); err != nil || len(images) != 0 {
		t.Errorf("images: %+v, %v", images, err)
	}
}

// endBuild has end called while a session's image is built.
func endBuild(t *testing.T, m *sandbox.Manager, spec spec.Spec, end func(context.Context) error) {
	t.Helper()
	begun := make(chan struct{}, 1)
	ctx := machine.WithNotice(t.Context(), func(line string) {
		if strings.HasSuffix(line, ": begun") {
			begun <- struct{}{}
		}
	})
	failed := make(chan error, 1)
	go func() { _, err := m.Get(ctx, "s", "built", spec); failed <- err }()
	select {
	case <-begun:
	case err := <-failed:
		t.Fatalf("before the build: %v", err)
	}
	last, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := end(last); err != nil {
		t.Errorf("end: %v", err)
	}
	if err := <-failed; !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("who waited got %v", err)
	}
}
