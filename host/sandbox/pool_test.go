package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// keepWarm gives the default specification a pool that is refilled at once.
func keepWarm(size int) func(*sandbox.Config) {
	return func(c *sandbox.Config) {
		c.Pools, c.PoolCPU = []sandbox.Pool{{Spec: c.Spec, Size: size}}, 100
		c.SetMemory(func() (pool.Memory, error) { return pool.Memory{Available: 1}, nil })
		c.SetInspectEvery(20 * time.Millisecond)
	}
}

// runManager keeps a manager's pools filled until the test ends.
func runManager(t testing.TB, m *sandbox.Manager) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
}

func awaitReady(t testing.TB, m *sandbox.Manager, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d containers are ready", n), func() bool { return m.Stats().Pool.Ready == n })
}

func TestPoolServesTheFirstCommand(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(2))
	runManager(t, m)
	awaitReady(t, m, 2)
	s := get(t, m, "new", config.Spec)
	if got := shell(t, s, "pwd; ls -A; echo x > f"); got != "/workspace\n" {
		t.Errorf("got %q", got)
	}
	if st := m.Stats(); st.Pool.Hits != 1 {
		t.Errorf("stats %+v", st)
	}
	if found, _ := filepath.Glob(filepath.Join(config.WorkspaceRoot, "new-*", "f")); len(found) != 1 {
		t.Error("the slot's folder did not become the session's")
	}
	awaitReady(t, m, 2)
}

// Nothing but a note says whose a container from a pool has become, for as long as it lives.
func TestPoolSaysWhoseAContainerIs(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(1))
	runManager(t, m)
	awaitReady(t, m, 1)
	get(t, m, "new", config.Spec)
	whose := func() (names []string) {
		t.Helper()
		owned, err := h.Driver.List(t.Context(), config.Instance)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range sandbox.WithOwners(config.WorkspaceRoot, config.Instance, owned) {
			names = append(names, o.Labels[driver.LabelSession])
		}
		return names
	}
	eventually(t, "the container is the session's", func() bool { return slices.Contains(whose(), "new") })
	awaitReady(t, m, 1)
	if names := whose(); len(names) != 2 || !slices.Contains(names, "") {
		t.Errorf("containers of %q", names)
	}
	if err := m.Reconcile(t.Context()); err != nil || !slices.Contains(whose(), "new") {
		t.Errorf("containers of %q (%v)", whose(), err)
	}
	if err := m.Destroy(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the note is gone", func() bool {
		if err := m.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		notes, err := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".run-*", "owner-*"))
		return err == nil && len(notes) == 0
	})
}

func TestPoolServesAReturningSession(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(1))
	s := get(t, m, "s", config.Spec)
	const look = `find . -exec stat -c '%n %a %u %g %i' {} + | tail -n +2 | sort; stat -c '%a %u %g' .; readlink link; cat a/b/f`
	shell(t, s, `mkdir -p a/b .hidden; echo deep > a/b/f; ln -s a/b/f link; ln a/b/f hard; mkfifo pipe; echo x > "$(printf 'odd\nname')"; chmod 751 .`)
	before := shell(t, s, look)
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	runManager(t, m)
	for round := range int64(3) {
		awaitReady(t, m, 1)
		s = get(t, m, "s", config.Spec)
		if after := shell(t, s, look); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if st := m.Stats().Pool; st.Hits != round+1 {
			t.Errorf("stats %+v", st)
		}
		shell(t, s, fmt.Sprintf("touch round%d", round))
		before = shell(t, s, look)
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(config.WorkspaceRoot, ".returning"))
	if err != nil || len(left) != 0 {
		t.Errorf("journals left: %v (%v)", left, err)
	}
}

// A workspace that somebody else uses stays where it is, and the session gets a new container.
func TestPoolLeavesAWorkspaceInUse(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	holds := workspace.NewHolds()
	m, config := h.Manager(t, keepWarm(1), func(c *sandbox.Config) { c.Holds = holds })
	first := get(t, m, "s", config.Spec) // before the pool is there
	shell(t, first, "echo x > f")
	runManager(t, m)
	awaitReady(t, m, 1)
	second, err := m.Get(t.Context(), "s", "second", config.Spec)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(who string, s *sandbox.Session, hits, misses int64) {
		t.Helper()
		if got := shell(t, s, "cat f"); got != "x\n" {
			t.Errorf("%s: got %q", who, got)
		}
		if st := m.Stats().Pool; st.Hits != hits || st.Misses[sandbox.MissWorkspace] != misses {
			t.Errorf("%s: stats %+v", who, st)
		}
	}
	expect("second sandbox", second, 0, 1)
	shell(t, first, "cat f")

	leave := holds.Enter("s")
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, m, 1)
	expect("with the host", get(t, m, "s", config.Spec), 0, 2)
	if err := m.Destroy(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	leave()
	expect("alone", get(t, m, "s", config.Spec), 1, 2)

	neighbour, err := sandbox.New(config) // another process of the instance, such as flynn sandbox exec
	if err != nil {
		t.Fatal(err)
	}
	again := func(who string, hits, misses int64) {
		t.Helper()
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, m, 1)
		expect(who, get(t, m, "s", config.Spec), hits, misses)
	}
	again("beside another process", 1, 3)
	if err := neighbour.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	again("alone again", 2, 3)
}

// Two sandboxes of one new session start at the same time: one workspace, shared by both.
func TestPoolGivesASessionOneWorkspace(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(2))
	runManager(t, m)
	awaitReady(t, m, 2)
	names := []string{"one", "two"}
	sessions := make([]*sandbox.Session, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			s, err := m.Get(t.Context(), "new", name, config.Spec)
			if err != nil {
				t.Error(err)
			}
			sessions[i] = s
		})
	}
	all.Wait()
	shell(t, sessions[0], "echo shared > f")
	if got := shell(t, sessions[1], "cat f"); got != "shared\n" {
		t.Errorf("got %q", got)
	}
	if sessions[0].Name() != "one" || sessions[1].Name() != "two" {
		t.Errorf("names %q, %q", sessions[0].Name(), sessions[1].Name())
	}
}

func TestPoolsBySpecification(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(1))
	runManager(t, m)
	awaitReady(t, m, 1)
	other := config.Spec
	other.PidsLimit = 40
	get(t, m, "a", other)
	if st := m.Stats().Pool; st.Misses[pool.MissNoPool] != 1 || st.Ready != 1 {
		t.Errorf("stats %+v", st)
	}

	m.SetPools([]sandbox.Pool{{Spec: config.Spec, Size: 1}, {Spec: other, Size: 2}}, 100)
	awaitReady(t, m, 3)
	get(t, m, "b", other)
	get(t, m, "c", config.Spec)
	if st := m.Stats().Pool; st.Hits != 2 || st.Wanted != 3 {
		t.Errorf("stats %+v", st)
	}
	awaitReady(t, m, 3)

	m.SetPools([]sandbox.Pool{{Spec: other, Size: 1}}, 100)
	if st := m.Stats().Pool; st.Ready != 1 || st.Drained != 2 {
		t.Errorf("stats %+v", st)
	}
	eventually(t, "the old pools' containers are gone", func() bool { return len(containers(t, h, config.Instance)) == 3+1 })
	for _, c := range containers(t, h, config.Instance) {
		if c.Labels[driver.LabelSession] == "" && c.Labels[driver.LabelSpec] == "" {
			t.Errorf("container %+v", c)
		}
	}
	m.SetPools(nil, 0)
	eventually(t, "all pools' containers are gone", func() bool { return len(containers(t, h, config.Instance)) == 3 })
	eventually(t, "no slot is left", func() bool { // it goes after its container
		slots, err := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".pool-*", "*"))
		return err == nil && len(slots) == 0
	})
}

func TestPoolsDrainWhileMemoryIsShort(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	var available atomic.Int64
	available.Store(50)
	m, config := h.Manager(t, keepWarm(2), func(c *sandbox.Config) {
		c.SetMemory(func() (pool.Memory, error) {
			return pool.Memory{Available: float64(available.Load()) / 100}, nil
		})
	})
	runManager(t, m)
	awaitReady(t, m, 2)
	available.Store(9)
	awaitReady(t, m, 0)
	get(t, m, "s", config.Spec)
	if st := m.Stats().Pool; st.Misses[pool.MissEmpty] != 1 || st.Drained < 2 || !st.Pressed {
		t.Errorf("stats %+v", st)
	}
	eventually(t, "the drained containers are gone", func() bool { return len(containers(t, h, config.Instance)) == 1 })
	available.Store(50)
	awaitReady(t, m, 2)
}

func TestOldPoolContainersAreReplaced(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(1), func(c *sandbox.Config) { c.MaxAge = 2 * time.Second })
	runManager(t, m)
	first := ""
	eventually(t, "there is a container", func() bool {
		owned := containers(t, h, config.Instance)
		if len(owned) > 0 {
			first = owned[0].ID
		}
		return first != ""
	})
	eventually(t, "the container is another one", func() bool {
		owned := containers(t, h, config.Instance)
		return m.Stats().Pool.Replaced > 0 && len(owned) == 1 && owned[0].ID != first
	})
}

func TestDeadPoolContainersAreReplaced(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(1))
	runManager(t, m)
	awaitReady(t, m, 1)
	if err := h.API.ContainerKill(t.Context(), containers(t, h, config.Instance)[0].ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is replaced", func() bool { p := m.Stats().Pool; return p.Replaced == 1 && p.Ready == 1 })
	if r := run(t, get(t, m, "s", config.Spec), machine.Command{Script: "exit 3"}); r.ExitCode != 3 {
		t.Errorf("result %+v", r)
	}
}
