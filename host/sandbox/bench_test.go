package sandbox_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

const hello = "echo hello"

// greeted checks what the command above has printed.
func greeted(out []byte, err error) error {
	if err == nil && string(out) != "hello\n" {
		err = fmt.Errorf("printed %q", out)
	}
	return err
}

var benchRounds = flag.Int("rounds", 0, "rounds of the table of benchmarks; 0 takes 30 for one session, and 4 for 16")

// BenchmarkTable prints every path to one trivial command beside the others: taken in turns in one run, by one session and by 16 that
// begin at the same instant. "each" is the time of all divided by their number. It takes
// a fixed number of rounds, some minutes, whatever -benchtime says.
//
//	just bench sandbox
func BenchmarkTable(b *testing.B) {
	for _, c := range []struct{ sessions, rounds int }{{1, 30}, {16, 4}} {
		b.Run(fmt.Sprint("sessions=", c.sessions), func(b *testing.B) {
			t := newTable(b, c.sessions)
			b.ResetTimer()
			for b.Loop() {
				for range cmp.Or(*benchRounds, c.rounds) {
					t.round()
				}
			}
			b.StopTimer()
			t.report(cmp.Or(*benchRounds, c.rounds))
		})
	}
}

// table is one run of all sides.
type table struct {
	b        *testing.B
	sessions int
	sides    []*side
}

// side is one path to the command. prepare and tidy are not timed.
type side struct {
	name    string
	times   int // in a round, one after the other in each session
	prepare func()
	op      func(session int) error
	tidy    func()
	took    []time.Duration
	whole   time.Duration // of all rounds
}

func newTable(b *testing.B, sessions int) *table {
	h := sandboxtest.Engine(b)
	t := &table{b: b, sessions: sessions}
	t.addHost()
	t.addRunning(h)
	t.addFirst(h)
	t.addPool(h)
	return t
}

func (t *table) add(name string, times int, op func(session int) error) *side {
	s := &side{name: name, times: times, prepare: func() {}, op: op, tidy: func() {}}
	t.sides = append(t.sides, s)
	return s
}

func (t *table) addHost() {
	t.add("host fork+exec", 10, func(int) error { return greeted(exec.Command(sandboxtest.Busybox, "sh", "-c", hello).Output()) })
}

// addRunning adds the ways into a container that runs.
func (t *table) addRunning(h sandboxtest.Host) {
	m, config := h.Manager(t.b)
	streams := config.Spec
	streams.Runtime = "runc" // named, so without a lane
	var warm, slow []*sandbox.Session
	for i := range t.sessions {
		warm = append(warm, get(t.b, m, fmt.Sprint("warm ", i), config.Spec))
	}
	ids := containers(t.b, h, config.Instance)
	for i := range t.sessions {
		slow = append(slow, get(t.b, m, fmt.Sprint("streams ", i), streams))
	}
	t.add("sandbox, warm", 10, func(i int) error { return execHello(t.b.Context(), warm[i]) })
	t.add("sandbox, warm, without lane", 5, func(i int) error { return execHello(t.b.Context(), slow[i]) })
	t.add("docker exec, API", 2, func(i int) error { return greeted(dockerExec(t.b.Context(), h, ids[i].ID)) })
	t.add("docker exec, CLI", 2, func(i int) error {
		return greeted(exec.Command("docker", "exec", ids[i].ID, "/bin/sh", "-c", hello).Output())
	})
}

// addFirst adds the ways to a first command that begin without a container.
func (t *table) addFirst(h sandboxtest.Host) {
	m, config := h.Manager(t.b)
	t.add("create+start+exec+remove, API", 1, func(int) error { return dockerWhole(t.b.Context(), h) })
	t.add("docker run --rm, CLI", 1, func(int) error {
		return greeted(exec.Command("docker", "run", "--rm", "--network", "none", sandboxtest.Image, "/bin/sh", "-c", hello).Output())
	})
	cold := t.add("first command, cold", 1, func(i int) error { return first(t.b.Context(), m, fmt.Sprint("cold ", i), config.Spec) })
	cold.tidy = func() { destroyAll(t.b, m, "cold ", t.sessions) }
}

// addPool adds the first commands of new sessions and of those that return, from the pool, and a code run.
func (t *table) addPool(h sandboxtest.Host) {
	m, config := h.Manager(t.b, keepWarm(t.sessions))
	code := sandbox.CodeSpec(config.Spec)
	for i := range t.sessions { // workspaces to return to, of some entries
		s := get(t.b, m, fmt.Sprint("returning ", i), config.Spec)
		shell(t.b, s, "mkdir -p src/a .git/objects; for i in $(seq 12); do echo $i > file$i; done; touch src/a/b")
	}
	destroyAll(t.b, m, "returning ", t.sessions)
	setup := m.Stats().Pool.Misses
	runManager(t.b, m)
	keep := func(spec sandbox.Spec) func() {
		return func() {
			m.SetPools([]sandbox.Pool{{Spec: spec, Size: t.sessions}}, 100)
			awaitReady(t.b, m, t.sessions)
			eventually(t.b, "nothing is removed any more", func() bool { return len(containers(t.b, h, config.Instance)) == t.sessions })
		}
	}
	n := 0
	fresh := t.add("first command, pool, new session", 1, func(i int) error {
		return first(t.b.Context(), m, fmt.Sprint("new ", n, " ", i), config.Spec)
	})
	fresh.prepare = keep(config.Spec)
	fresh.tidy = func() { destroyAll(t.b, m, fmt.Sprint("new ", n, " "), t.sessions); n++ }
	returning := t.add("first command, pool, returning", 1, func(i int) error {
		return first(t.b.Context(), m, fmt.Sprint("returning ", i), config.Spec)
	})
	returning.prepare = fresh.prepare
	returning.tidy = func() { destroyAll(t.b, m, "returning ", t.sessions) }
	run := t.add("code run, pool", 1, func(int) error {
		r, err := m.RunCode(t.b.Context(), sandbox.Code{Spec: code, Language: "sh", Program: []byte(hello)})
		return greeted(r.Stdout, err)
	})
	run.prepare = keep(code)
	t.b.Cleanup(func() {
		if p := m.Stats().Pool; !maps.Equal(p.Misses, setup) {
			t.b.Errorf("the pool missed: %+v, before %v", p, setup)
		}
	})
}

func execHello(ctx context.Context, s *sandbox.Session) error {
	r, err := s.Exec(ctx, machine.Command{Script: hello})
	return greeted(r.Stdout, err)
}

// first asks for a session and runs its first command.
func first(ctx context.Context, m *sandbox.Manager, session string, spec sandbox.Spec) error {
	s, err := m.Get(ctx, session, "default", spec)
	if err != nil {
		return err
	}
	return execHello(ctx, s)
}

func destroyAll(b *testing.B, m *sandbox.Manager, prefix string, n int) {
	b.Helper()
	if err := together(n, func(i int) error { return m.Destroy(b.Context(), fmt.Sprint(prefix, i)) }); err != nil {
		b.Fatal(err)
	}
}

// together does the same for all sessions at a time.
func together(n int, do func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// round takes each side once, or some times where it is quick.
func (t *table) round() {
	for _, s := range t.sides {
		s.prepare()
		for range s.times {
			took := make([]time.Duration, t.sessions)
			began := time.Now()
			err := together(t.sessions, func(i int) error {
				defer func() { took[i] = time.Since(began) }()
				return s.op(i)
			})
			s.whole += time.Since(began)
			if err != nil {
				t.b.Fatalf("%s: %v", s.name, err)
			}
			s.took = append(s.took, took...)
		}
		s.tidy()
	}
}

// share is what one command has taken of the machine, in milliseconds: the time of all divided by their number.
func (s *side) share() float64 { return float64(s.whole.Microseconds()) / 1000 / float64(len(s.took)) }

// quantile is in milliseconds.
func (s *side) quantile(q float64) float64 {
	return float64(s.took[int(q*float64(len(s.took)-1))].Microseconds()) / 1000
}

// report prints the table: benchmarks' own lines have no room for ratios.
func (t *table) report(rounds int) {
	byName := map[string]*side{}
	for _, s := range t.sides {
		slices.Sort(s.took)
		byName[s.name] = s
	}
	host := byName["host fork+exec"].quantile(0.5)
	fmt.Printf("\n%d at a time, %d rounds on %d cores, milliseconds\n", t.sessions, rounds, runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "p50\tp95\tx host\teach\t ")
	for _, s := range t.sides {
		fmt.Fprintf(w, "%.2f\t%.2f\t%.1f\t%.2f\t  %s\n", s.quantile(0.5), s.quantile(0.95), s.quantile(0.5)/host, s.share(), s.name)
	}
	w.Flush()
	warm := byName["sandbox, warm"].quantile(0.5)
	t.b.ReportMetric(warm/host, "warm/host")
	t.b.ReportMetric(byName["docker exec, API"].quantile(0.5)/warm, "exec-api/warm")
	t.b.ReportMetric(byName["docker exec, CLI"].quantile(0.5)/warm, "exec-cli/warm")
	fresh := byName["first command, pool, new session"].quantile(0.5)
	t.b.ReportMetric(fresh, "new-p50-ms")
	t.b.ReportMetric(byName["first command, pool, returning"].quantile(0.5), "returning-p50-ms")
	t.b.ReportMetric(byName["create+start+exec+remove, API"].quantile(0.5)/fresh, "whole/new")
	t.b.ReportMetric(0, "ns/op")
}

// dockerExec is the engine's own way, without its command line program.
func dockerExec(ctx context.Context, h sandboxtest.Host, id string) ([]byte, error) {
	made, err := h.API.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: []string{"/bin/sh", "-c", hello}, AttachStdout: true, Tty: true,
	})
	if err != nil {
		return nil, err
	}
	stream, err := h.API.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{Tty: true})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	out, err := io.ReadAll(stream.Reader)
	if err == nil {
		_, err = h.API.ContainerExecInspect(ctx, made.ID)
	}
	return []byte(fmt.Sprintln(string(out[:min(len(out), 5)]))), err
}

// dockerWhole makes a container, runs the command by the engine's exec and removes it.
func dockerWhole(ctx context.Context, h sandboxtest.Host) error {
	made, err := h.API.ContainerCreate(ctx, &container.Config{Image: sandboxtest.Image, Entrypoint: []string{"sleep", "100"}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return err
	}
	if err := h.API.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return err
	}
	ran := greeted(dockerExec(ctx, h, made.ID))
	return cmp.Or(ran, h.API.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}))
}

var liveSessions = flag.Int("live", 100, "sessions that live at a time, a multiple of 4")

// BenchmarkLiveSessions says what a hundred sessions with containers cost on the host's side, each: goroutines, bytes of
// heap, descriptors; and how long a command takes among them.
func BenchmarkLiveSessions(b *testing.B) {
	sessions := *liveSessions
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	get(b, m, "warm-up", config.Spec)
	for b.Loop() {
		before := weigh(b, h)
		live := make([]*sandbox.Session, sessions)
		for from := 0; from < sessions; from += 4 {
			err := together(4, func(i int) (err error) {
				if live[from+i], err = m.Get(b.Context(), fmt.Sprint("live ", from+i), "default", config.Spec); err != nil {
					return err
				}
				return execHello(b.Context(), live[from+i])
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		after := weigh(b, h)
		var took side
		for range 5 {
			for _, s := range live {
				began := time.Now()
				if err := execHello(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				took.took = append(took.took, time.Since(began))
			}
		}
		slices.Sort(took.took)
		b.ReportMetric(float64(after.goroutines-before.goroutines)/float64(sessions), "goroutines/session")
		b.ReportMetric(float64(after.heap-before.heap)/float64(sessions), "heap-B/session")
		b.ReportMetric(float64(after.stacks-before.stacks)/float64(sessions), "stack-B/session")
		b.ReportMetric(float64(after.descriptors-before.descriptors)/float64(sessions), "fds/session")
		b.ReportMetric(took.quantile(0.5), "p50-ms")
		b.ReportMetric(took.quantile(0.95), "p95-ms")
		b.ReportMetric(0, "ns/op")
		for from := 0; from < sessions; from += 4 { // all at once keep the engine from answering
			err := together(4, func(i int) error { return m.Destroy(b.Context(), fmt.Sprint("live ", from+i)) })
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// weight is what a process has at a moment.
type weight struct{ goroutines, heap, stacks, descriptors int }

func weigh(b *testing.B, h sandboxtest.Host) weight {
	fds := openFiles(b, h)
	runtime.GC()
	runtime.GC() // what the first one has found unreachable by finalizers
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return weight{runtime.NumGoroutine(), int(s.HeapAlloc), int(s.StackInuse), len(fds)}
}

// BenchmarkReturning is the claim alone, by the number of the workspace's entries: what a returning session pays for them.
func BenchmarkReturning(b *testing.B) {
	for _, entries := range []int{0, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint("entries=", entries), func(b *testing.B) {
			h := sandboxtest.Engine(b)
			m, config := h.Manager(b, keepWarm(1))
			shell(b, get(b, m, "s", config.Spec), "true")
			found, err := filepath.Glob(filepath.Join(config.WorkspaceRoot, "s-*"))
			if err != nil || len(found) != 1 {
				b.Fatalf("workspaces %q (%v)", found, err)
			}
			for i := range entries {
				if err := os.WriteFile(filepath.Join(found[0], fmt.Sprint("file", i)), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
			runManager(b, m)
			var took side
			for b.Loop() {
				for range 5 {
					if err := m.Destroy(b.Context(), "s"); err != nil {
						b.Fatal(err)
					}
					awaitReady(b, m, 1)
					began := time.Now()
					if err := first(b.Context(), m, "s", config.Spec); err != nil {
						b.Fatal(err)
					}
					took.took = append(took.took, time.Since(began))
				}
			}
			if p := m.Stats().Pool; p.Misses[sandbox.MissWorkspace]+p.Misses[sandbox.MissEmpty] > 1 {
				b.Errorf("the pool missed: %+v", p)
			}
			slices.Sort(took.took)
			b.ReportMetric(took.quantile(0.5), "p50-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
