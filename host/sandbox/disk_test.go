package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func TestDiskLimit(t *testing.T) {
	t.Parallel()
	s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes = 40 << 20 })
	t.Run("a file", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "exec dd if=/dev/zero of=big bs=1M count=100"})
		if !r.DiskHit || r.ExitCode == 0 {
			t.Errorf("got %+v, stderr %s", r, r.Stderr)
		}
		if larger := shell(t, s, "find big -size +40960k"); larger != "" { // find runs in an overfull workspace as well
			t.Error("a single file is larger than the limit")
		}
		shell(t, s, "rm big")
	})
	t.Run("many files", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >f$i || exit; done", Timeout: time.Minute})
		if !r.DiskHit || r.TimedOut || r.Kill == nil || r.Kill.Survivors != 0 {
			t.Errorf("got %+v, kill %+v", r, r.Kill)
		}
	})
	t.Run("overfull", func(t *testing.T) {
		refuses(t, s)
		shell(t, s, "du -s . && ls >/dev/null; rm -f f*")
	})
	t.Run("in the background", func(t *testing.T) {
		p := start(t, s, machine.Command{Script: "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >h$i || exit; done"})
		if ended, err := s.Wait(t.Context(), p.ID); err != nil || !ended.Result.DiskHit {
			t.Errorf("ended %+v (%v)", ended.Result, err)
		}
		shell(t, s, "rm -f h*")
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
		shell(t, s, "rm -rf *")
		if r := run(t, s, machine.Command{Script: "head -c 1000000 /dev/zero >f; sleep 0.3"}); r.DiskHit || r.ExitCode != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// refuses checks that an overfull workspace takes nothing more, whatever asks, and lets go what is in it.
func refuses(t *testing.T, s *sandbox.Session) {
	t.Helper()
	for _, script := range []string{"true", "rm -f nothing; echo 1 >small", "rm -f $(echo 1 >small)", "PATH=. rm x", "ls >small"} {
		if r, err := s.Exec(t.Context(), machine.Command{Script: script}); !errors.Is(err, machine.ErrFull) || !r.DiskHit {
			t.Errorf("%q: result %+v, error %v", script, r, err)
		}
	}
	if _, err := s.Start(t.Context(), machine.Command{Script: "sleep 10"}); !errors.Is(err, machine.ErrFull) {
		t.Errorf("start a process: %v", err)
	}
	if err := s.WriteFile(t.Context(), "small", []byte("1"), 0); !errors.Is(err, machine.ErrFull) {
		t.Errorf("write a file: %v", err)
	}
}

// Files that the host or an earlier container has left count too.
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
	refuses(t, s)
	if err := os.Remove(filepath.Join(folder, "big")); err != nil {
		t.Fatal(err)
	}
	shell(t, s, "echo 1 >small")
}

// openFilled is open for a session whose workspace has folders of 1000 empty files each.
func openFilled(t *testing.T, folders int, change func(*sandbox.Config)) *sandbox.Session {
	t.Helper()
	m, config := sandboxtest.Engine(t).Manager(t, change)
	for i := range folders {
		folder := filepath.Join(workspace.Path(config.WorkspaceRoot, "filled"), fmt.Sprint("d", i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 1000 {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(j)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return get(t, m, "filled", config.Spec)
}

// Commands that are over before anybody looks do not add up.
func TestShortCommandsDoNotAddUp(t *testing.T) {
	t.Parallel()
	const limit = 40 << 20
	fill := func(name string) string {
		return fmt.Sprintf("for i in 1 2 3; do dd if=/dev/zero of=%s.$i bs=1M count=30 2>/dev/null; done", name)
	}
	t.Run("few files", func(t *testing.T) {
		s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes = limit })
		var refused int
		for i := range 6 {
			if r, err := s.Exec(t.Context(), machine.Command{Script: fill(fmt.Sprint("b", i))}); errors.Is(err, machine.ErrFull) {
				refused++
			} else if err != nil || !r.DiskHit {
				t.Errorf("command %d: result %+v, error %v", i, r, err)
			}
		}
		if refused != 5 {
			t.Errorf("%d of 5 further commands were refused", refused)
		}
	})
	t.Run("many files", func(t *testing.T) { // a look takes its time
		s := openFilled(t, 30, func(c *sandbox.Config) { c.Spec.DiskBytes = limit })
		var last error
		for i := range 6 {
			_, last = s.Exec(t.Context(), machine.Command{Script: "sleep 0.2; " + fill(fmt.Sprint("z", i))})
		}
		if !errors.Is(last, machine.ErrFull) {
			t.Errorf("the last command: %v", last)
		}
	})
}

// Commands do not take the supervisor's part of the processor: however many there are, it goes on looking at the disk.
func TestSupervisorComesFirst(t *testing.T) {
	s := open(t)
	const nice = "{ read -r line </proc/%s/stat; set -- ${line##*) }; echo ${17}; }"
	if own := shell(t, s, fmt.Sprintf(nice, "self")); own != "19\n" {
		t.Errorf("a command has priority %q", own)
	}
	if others := shell(t, s, "("+fmt.Sprintf(nice, "self")+")"); others != "19\n" {
		t.Errorf("its child has priority %q", others)
	}
	if first := shell(t, s, fmt.Sprintf(nice, "1")); first != "0\n" {
		t.Errorf("the supervisor has priority %q", first)
	}
}

// A file that was deleted counts as long as it is open.
func TestDeletedFilesCount(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes = 20 << 20 })
	p := start(t, s, machine.Command{Script: "for i in 1 2 3; do head -c 10000000 /dev/zero >f$i; eval \"exec 1$i<>f$i\"; rm f$i; done; sleep 1000"})
	if ended, err := s.Wait(t.Context(), p.ID); err != nil || !ended.Result.DiskHit {
		t.Errorf("ended %+v (%v)", ended.Result, err)
	}
	shell(t, s, "true")
}

// A folder that the workload closes to itself counts with what is in it, and stays closed.
func TestClosedFoldersCount(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.DiskBytes = 10 << 20 })
	r := run(t, s, machine.Command{Script: "mkdir c; chmod 300 c; i=0; while [ $i -lt 3 ]; do i=$((i+1)); head -c 5000000 /dev/zero >c/f$i; done; sleep 30"})
	if !r.DiskHit {
		t.Errorf("got %+v", r)
	}
	if mode := shell(t, s, "ls -ld c"); !strings.HasPrefix(mode, "d-wx------") {
		t.Errorf("the folder is %s", mode)
	}
	shell(t, s, "chmod 700 c && rm -r c")
	shell(t, s, "true")
}

func TestInodeBomb(t *testing.T) {
	t.Parallel()
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
