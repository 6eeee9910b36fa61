package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func TestDiskLimit(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes = 40 << 20 })
	t.Run("a file", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "exec dd if=/dev/zero of=big bs=1M count=100"})
		if !r.DiskHit || r.ExitCode == 0 {
			t.Errorf("got %+v, stderr %s", r, r.Stderr)
		}
		if size := shell(t, s, "stat -c %s big"); len(size) > len("41943040\n") {
			t.Errorf("a single file of %s bytes", size)
		}
		shell(t, s, "rm big")
	})
	t.Run("many files", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >f$i || exit; done", Timeout: time.Minute})
		if !r.DiskHit || r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
			t.Errorf("got %+v, kill %+v", r, r.Kill)
		}
	})
	t.Run("overfull, does not grow", func(t *testing.T) {
		if r := run(t, s, machine.Command{Script: "echo 1 >small; sleep 0.3; cat small"}); r.DiskHit || r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("overfull, grows", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >g$i || exit; done", Timeout: time.Minute})
		if !r.DiskHit || r.TimedOut {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("in the background", func(t *testing.T) {
		p := start(t, s, machine.Command{Script: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >h$i || exit; done"})
		if ended, err := s.Wait(t.Context(), p.ID); err != nil || !ended.Result.DiskHit {
			t.Errorf("ended %+v (%v)", ended.Result, err)
		}
	})
	t.Run("deep down", func(t *testing.T) {
		r := run(t, s, machine.Command{
			Script:  "i=0; while [ $i -lt 200 ]; do i=$((i+1)); mkdir d; cd d; done; while :; do i=$((i+1)); head -c 1000000 /dev/zero >f$i || exit; done",
			Timeout: time.Minute,
		})
		if !r.DiskHit || r.TimedOut {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("made room", func(t *testing.T) {
		if r := run(t, s, machine.Command{Script: "rm -f *; sleep 0.3"}); r.DiskHit || r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
		if r := run(t, s, machine.Command{Script: "head -c 1000000 /dev/zero >f; sleep 0.3"}); r.DiskHit || r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// What the host or an earlier container has left is not a command's fault.
func TestOverfullFromTheStart(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t, func(c *sandbox.Config) { c.Spec.DiskBytes = 1 << 20 })
	folder := workspace.Path(config.WorkspaceRoot, "full")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "big"), make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	s := get(t, m, "full", config.Spec)
	if r := run(t, s, machine.Command{Script: "sleep 0.3"}); r.DiskHit || r.ExitCode != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestInodeBomb(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes, c.Spec.DiskEntries = 1<<30, 5000 })
	r := run(t, s, machine.Command{
		Script: "j=0; while [ $j -lt 8 ]; do j=$((j+1)); (mkdir d$j && cd d$j && seq 1 100000 | xargs -n 500 touch) & done; wait", Timeout: 60 * time.Second,
	})
	if !r.DiskHit || r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
		t.Errorf("got %+v, kill %+v", r, r.Kill)
	}
	if r := run(t, s, machine.Command{Script: "rm -rf d*", Timeout: 60 * time.Second}); r.DiskHit || r.ExitCode != 0 {
		t.Errorf("got %+v, stderr %s", r, r.Stderr)
	}
}
