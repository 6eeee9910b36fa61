package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

var (
	aborts    = flag.Int("aborts", 60, "calls that are cancelled at random points")
	abortSeed = flag.Uint64("abort-seed", 0, "seed of kinds and pauses; 0 takes one from the clock")
)

// abortWorkers call side by side, two of them in each session.
const abortWorkers = 6

// Callers leave at random points of start, run and drain. Nothing is left of what they began: no process, goroutine,
// descriptor, container or folder.
func TestAborts(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, keepWarm(0))
	seed := *abortSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-abort-seed %d", seed)
	left := lookForLeftovers(t, h, m, config)
	m.SetPools([]sandbox.Pool{{Spec: config.Spec, Size: 2}, {Spec: spec.CodeSpec(config.Spec), Size: 1}}, 100)
	a := aborter{t: t, m: m, spec: config.Spec, done: map[string]int{}}
	a.left.Store(int64(*aborts))
	var all sync.WaitGroup
	for i := range abortWorkers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() { a.work(random, message.WorkspaceKey(fmt.Sprint("s", i/2))) })
	}
	all.Wait()
	t.Logf("ended in time, or not: %v; pool %+v", a.done, m.Stats().Pool)

	a.checkInside(h, config)
	for i := range abortWorkers {
		if err := m.Destroy(t.Context(), message.WorkspaceKey(fmt.Sprint("s", i/2))); err != nil {
			t.Error(err)
		}
	}
	left.none(func() bool { return len(containers(t, h, config.Instance)) == 0 })
}

// openFiles are the descriptors of this process, without the idle connections to the engine.
func openFiles(t testing.TB, h sandboxtest.Host) []string {
	t.Helper()
	h.Driver.Close()
	h.API.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			open = append(open, target)
		}
	}
	return open
}

// aborter makes calls and leaves them.
type aborter struct {
	t    *testing.T
	m    *sandbox.Manager
	spec spec.Spec
	left atomic.Int64

	mu   sync.Mutex
	done map[string]int
}

// abortKinds are what callers leave, each within so many milliseconds at most.
func abortKinds() map[string]struct {
	within int
	call   func(a *aborter, ctx context.Context, session message.WorkspaceKey) error
} {
	type kind = struct {
		within int
		call   func(a *aborter, ctx context.Context, session message.WorkspaceKey) error
	}
	exec := func(script string) func(*aborter, context.Context, message.WorkspaceKey) error {
		return func(a *aborter, ctx context.Context, session message.WorkspaceKey) error {
			return a.exec(ctx, session, machine.Command{Script: script})
		}
	}
	kinds := map[string]kind{
		"quick":        {10, exec("echo hello")},
		"output flood": {60, exec("yes | head -c 20000000; yes >&2 | head -c 20000000")},
		"fork burst":   {40, exec("for i in $(seq 20); do sleep 100 & done; wait")},
		"stdin": {30, func(a *aborter, ctx context.Context, session message.WorkspaceKey) error {
			return a.exec(ctx, session, machine.Command{Script: "head -c 100000; sleep 100", Stdin: make([]byte, 2<<20)})
		}},
		"background":    {40, (*aborter).background},
		"file transfer": {30, (*aborter).transfer},
		"get and close": {400, (*aborter).getAndClose},
		"code":          {400, (*aborter).code},
	}
	for _, c := range stubborn {
		if !strings.Contains(c.name, "bomb") {
			kinds[c.name] = kind{60, exec(c.script)}
		}
	}
	return kinds
}

func (a *aborter) work(random *rand.Rand, session message.WorkspaceKey) {
	kinds := abortKinds()
	names := slices.Sorted(maps.Keys(kinds))
	for a.left.Add(-1) >= 0 {
		name := names[random.IntN(len(names))]
		kind := kinds[name]
		if random.IntN(4) > 0 { // the others leave while the container starts
			_, _ = a.m.Get(context.Background(), session, "default", a.spec)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(kind.within*1000))*time.Microsecond)
		err := kind.call(a, ctx, session)
		outcome := " in time"
		if ctx.Err() != nil {
			outcome = " left"
		}
		cancel()
		// Sessions are closed by others meanwhile, and files and processes go with that.
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, machine.ErrUnavailable) && !errors.Is(err, machine.ErrNotFound) {
			a.t.Errorf("%s: %v", name, err)
		}
		a.mu.Lock()
		a.done[name+outcome]++
		a.mu.Unlock()
	}
}

// exec checks the certificate of whatever was ended.
func (a *aborter) exec(ctx context.Context, session message.WorkspaceKey, cmd machine.Command) error {
	s, err := a.m.Get(ctx, session, "default", a.spec)
	if err != nil {
		return err
	}
	r, err := s.Exec(ctx, cmd)
	if r.PidsHit {
		return nil // two share the session's processes
	}
	if err == nil && r.Canceled && r.Kill == nil || r.Kill != nil && r.Kill.Survivors != 0 {
		return fmt.Errorf("result %+v, kill %+v", r, r.Kill)
	}
	return err
}

// background starts a process; who got it ends it, however long that takes.
func (a *aborter) background(ctx context.Context, session message.WorkspaceKey) error {
	s, err := a.m.Get(ctx, session, "default", a.spec)
	if err != nil {
		return err
	}
	p, err := s.Start(ctx, machine.Command{Script: `trap "" TERM; setsid sleep 100 & while :; do sleep 1; done`})
	if err != nil {
		return err
	}
	_, _ = s.Output(ctx, p.ID, 0, 1000)
	p, err = s.Kill(context.Background(), p.ID)
	if err == nil && (p.Running || p.Result != nil && p.Result.Kill != nil && p.Result.Kill.Survivors != 0) {
		return fmt.Errorf("killed process %+v", p)
	}
	return err
}

func (a *aborter) transfer(ctx context.Context, session message.WorkspaceKey) error {
	s, err := a.m.Get(ctx, session, "default", a.spec)
	if err != nil {
		return err
	}
	if err := s.WriteFile(ctx, "a/b/f", make([]byte, 2<<20), 0); err != nil {
		return err
	}
	if _, err := s.List(ctx, "a"); err != nil {
		return err
	}
	_, _, err = s.ReadFile(ctx, "a/b/f", 0, 2<<20)
	return err
}

func (a *aborter) getAndClose(ctx context.Context, session message.WorkspaceKey) error {
	s, err := a.m.Get(ctx, session, "default", a.spec)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return a.exec(ctx, session, machine.Command{Script: "sleep 0.05"})
}

func (a *aborter) code(ctx context.Context, _ message.WorkspaceKey) error {
	r, err := a.m.RunCode(ctx, sandbox.Code{
		Spec: spec.CodeSpec(a.spec), Language: "sh", Program: []byte("echo x > out/f; setsid sleep 100 & sleep 0.05"), Stdin: make([]byte, 300_000),
	})
	if r.Kill != nil && r.Kill.Survivors != 0 {
		return fmt.Errorf("result %+v, kill %+v", r.Result, r.Kill)
	}
	return err
}

// checkInside has every session count the processes in its container, and asks the engine.
func (a *aborter) checkInside(h sandboxtest.Host, config sandbox.Config) {
	const count = "set -- /proc/[0-9]*; echo $#" // the shell itself is one of them
	for i := range abortWorkers / 2 {
		s := get(a.t, a.m, message.WorkspaceKey(fmt.Sprint("s", i)), a.spec)
		if running, err := s.Processes(a.t.Context()); err != nil || slices.ContainsFunc(running, func(p machine.Process) bool { return p.Running }) {
			a.t.Errorf("processes are left in session %d: %+v (%v)", i, running, err)
		}
		if got := shell(a.t, s, count); got != fmt.Sprintln(supervision+1) {
			a.t.Errorf("session %d has %s processes, want %d:\n%s", i, strings.TrimSpace(got), supervision+1, shell(a.t, s, "ps"))
		}
		if drafts := shell(a.t, s, "find . -name '.flynn-*'"); drafts != "" {
			a.t.Errorf("drafts are left in session %d: %s", i, drafts)
		}
	}
	for _, c := range containers(a.t, h, config.Instance) {
		if top, err := h.API.ContainerTop(a.t.Context(), c.ID, nil); err == nil && len(top.Processes) > supervision { // or it is just being made
			a.t.Errorf("processes in %s: %v", c.Name, top.Processes)
		}
	}
}
