package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// apart returns a Manager whose containers mount nothing of this machine: they get copies, and a disk each.
func apart(t *testing.T, adjust ...func(*sandbox.Config)) (*sandbox.Manager, sandbox.Config) {
	t.Helper()
	h := sandboxtest.Engine(t)
	d := h.Dialed(t, false)
	d.Apart = true
	return h.Manager(t, append([]func(*sandbox.Config){d.Adjust}, adjust...)...)
}

func TestWorkspaceOutlivesItsDisk(t *testing.T) {
	t.Parallel()
	m, config := apart(t)
	s := get(t, m, "s", config.Spec)
	rude := "a b/\\$(id)\n\t'\"é"
	run(t, s, machine.Command{Script: `mkdir -p "$D"; echo kept >"$D/f"; echo x >gone; ln -s /etc/passwd l; mkfifo p; chmod 700 "$D"`, Env: map[string]string{"D": rude}})
	if err := s.WriteFile(t.Context(), "big", bytes.Repeat([]byte("x"), 3<<20), 0); err != nil {
		t.Fatal(err)
	}
	// what is replaced by a link to where it was moved must not be removed there
	run(t, s, machine.Command{Script: "mkdir -p old/deep; echo 1 >old/f; echo 2 >old/deep/g"})
	run(t, s, machine.Command{Script: "mv old new; ln -s new old"})
	for range 2 {
		if got := shell(t, s, "cat old/f new/deep/g; readlink old"); got != "1\n2\nnew\n" {
			t.Errorf("what was moved: %q", got)
		}
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		s = get(t, m, "s", config.Spec)
		if got := shell(t, s, `cat a*/*/f; wc -c <big; readlink l; rm -f gone; ls | wc -l`); got != "kept\n3145728\n/etc/passwd\n5\n" {
			t.Errorf("got %q", got)
		}
	}
	if got, err := os.ReadFile(filepath.Join(home(t, config.WorkspaceRoot, "s"), rude, "f")); err != nil || string(got) != "kept\n" {
		t.Errorf("on the host: %q (%v)", got, err)
	}
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".run-*", wssync.OwnPrefix+"*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// A second change in the same instant, of the same size, reaches the host too.
func TestQuickChanges(t *testing.T) {
	t.Parallel()
	m, config := apart(t)
	s := get(t, m, "s", config.Spec)
	for i := range 100 {
		want := fmt.Sprintln(i % 10)
		shell(t, s, "echo "+want[:1]+" >f")
		if got, err := os.ReadFile(filepath.Join(home(t, config.WorkspaceRoot, "s"), "f")); err != nil || string(got) != want {
			t.Fatalf("change %d: the host has %q (%v)", i, got, err)
		}
	}
}

// Two sandboxes of a session see each other's changes, as they do where they share a folder.
func TestDisksOfASessionAgree(t *testing.T) {
	t.Parallel()
	m, config := apart(t)
	a := get(t, m, "s", config.Spec)
	shell(t, a, "mkdir d; echo 1 >d/f; echo 1 >both")
	b, err := m.Get(t.Context(), "s", "other", config.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if got := shell(t, b, fmt.Sprintf("cat d/f; rm -r d; echo %d >of-b; echo b >both", i)); got != "1\n" {
			t.Errorf("b sees %q", got)
		}
		if got := shell(t, a, "cat of-b both; ls; mkdir d; echo 1 >d/f"); got != fmt.Sprintf("%d\nb\nboth\nof-b\n", i) {
			t.Errorf("a sees %q", got)
		}
	}
	reader := config.Spec
	reader.Workspace = spec.WorkspaceReadOnly
	c, err := m.Get(t.Context(), "s", "reader", reader)
	if err != nil {
		t.Fatal(err)
	}
	shell(t, c, "echo c >both; rm -r d; echo c >of-c")
	if got := shell(t, a, "cat both d/f; ls; echo a >both"); got != "b\n1\nboth\nd\nof-b\n" {
		t.Errorf("after the one that may only read: %q", got)
	}
	if got := shell(t, c, "cat both"); got != "a\n" {
		t.Errorf("the one that may only read sees %q", got)
	}
}

// A file that was written below a folder that another sandbox of the session has removed or replaced meanwhile is not lost.
func TestDisksInConflict(t *testing.T) {
	t.Parallel()
	m, config := apart(t)
	a := get(t, m, "s", config.Spec)
	b, err := m.Get(t.Context(), "s", "other", config.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, meanwhile := range []string{"rm -r d", "rm -r d; echo x >d", "rm -r d; ln -s /etc d", "rm -r d/e; echo x >d/e", "rm -r d; mkfifo d", "rm -r d; mkdir d"} {
		shell(t, a, "rm -rf d; mkdir -p d/e; echo 1 >d/e/f; echo 1 >d/g")
		shell(t, b, "cat d/e/f")
		l, err := a.Talk(t.Context(), machine.Command{Script: "read x; echo late >d/e/f"})
		if err != nil {
			t.Fatal(err)
		}
		shell(t, b, meanwhile)
		if _, err := l.Stdin.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
		if r, err := l.Wait(t.Context()); err != nil || r.ExitCode != 0 {
			t.Errorf("%s: %+v (%v)", meanwhile, r, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for name, s := range map[string]*sandbox.Session{"a": a, "b": b} {
			if got := shell(t, s, "cat d/e/f"); got != "late\n" {
				t.Errorf("after %s, %s has %q", meanwhile, name, got)
			}
		}
	}
}

// A session that comes back gets a ready container, with its files.
func TestPoolWithDisks(t *testing.T) {
	t.Parallel()
	m, config := apart(t, keepWarm(2))
	runManager(t, m)
	awaitReady(t, m, 2)
	for i := range 3 {
		s := get(t, m, "s", config.Spec)
		want := strings.Repeat("x\n", i)
		if got := shell(t, s, "cat f 2>/dev/null; echo x >>f"); got != want {
			t.Errorf("visit %d: %q, want %q", i, got, want)
		}
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, m, 2)
	}
	if st := m.Stats(); st.Pool.Hits != 3 {
		t.Errorf("stats %+v", st)
	}
}

// A program that a command of a sandbox calls sees what the same command has written before, and the command what the program writes.
func TestBridgesWithDisks(t *testing.T) {
	t.Parallel()
	m, config := apart(t, func(c *sandbox.Config) {
		in := c.Spec
		forms := []bridge.Form{{Args: []bridge.Arg{{Pattern: ".*"}}, Flags: map[string]string{"-c": ""}}}
		c.Spec.Bridges = []spec.Bridge{
			{Name: "writes", Program: "/bin/sh", In: &in, Workspace: "rw", Forms: forms},
			{Name: "reads", Program: "/bin/sh", In: &in, Workspace: "ro", Forms: forms},
		}
	})
	s := get(t, m, "s", config.Spec)
	script := `for i in 1 2; do echo $i >f; writes -c 'cat f; echo there >>f'; cat f; done; reads -c 'cat f; echo lost >f; echo lost >g'; ls; cat f`
	if got, want := shell(t, s, script), "1\n1\nthere\n2\n2\nthere\n2\nthere\nf\n2\nthere\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A file that a command writes while no host is there is copied by the next one.
func TestDiskOutlastsTheHost(t *testing.T) {
	h, order := dialedHosts(t)
	order.Apart = true
	first := newHost(t, order)
	first.do(hostCall{Do: "exec", Session: "s", Script: "echo before >f"})
	first.do(hostCall{Do: "start", Session: "s", Script: "while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after >f; echo new >g; exec sleep 1000"})
	first.do(hostCall{Do: "exec", Session: "s", Script: "touch /tmp/go; rm -f nothing"})
	first.kill()
	next := newHost(t, order)
	if next.first.Stats.Adopted != 1 {
		t.Fatalf("stats %+v", next.first.Stats)
	}
	eventually(t, "the command has written", func() bool {
		return next.do(hostCall{Do: "exec", Session: "s", Script: "cat f g"}).Text == "after\nnew\n"
	})
	for name, want := range map[string]string{"f": "after\n", "g": "new\n"} {
		if got, err := os.ReadFile(filepath.Join(home(t, order.Root, "s"), name)); err != nil || string(got) != want {
			t.Errorf("on the host %s has %q (%v)", name, got, err)
		}
	}
	next.do(hostCall{Do: "destroy", Session: "s"})
	if left := containers(t, h, order.Instance); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
