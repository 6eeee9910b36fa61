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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
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

// BenchmarkTable prints every path to one trivial command beside the others, by one session and by 16 that begin at the same
// instant. A round takes each path; those that are compared alternate, so that whatever else the machine does concerns them all,
// and the first turn of each only warms the caches. A ratio is the median of the rounds' own ratios. "cpu" is the processor time
// of one command, its container's and this process's together, and "limit" what keeps the figure from falling further. It takes
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
	limit   string
	times   int // in a round, of which the first does not count unless it is the only one; neighbours with the same number alternate
	prepare func()
	op      func(session int) error
	tidy    func()
	boxes   []string // containers that work for it all the time
	took    []time.Duration
	medians []float64     // of the rounds, in milliseconds
	cpu     time.Duration // of all rounds
	round   []time.Duration
	spent   time.Duration // of processors, in this round
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

func (t *table) add(name string, times int, limit string, op func(session int) error) *side {
	s := &side{name: name, limit: limit, times: times, prepare: func() {}, op: op, tidy: func() {}}
	t.sides = append(t.sides, s)
	return s
}

func (t *table) addHost() {
	t.add("host fork+exec", 20, "the kernel: fork, exec, page faults and exit of one busybox",
		func(int) error { return greeted(exec.Command(sandboxtest.Busybox, "sh", "-c", hello).Output()) })
}

// addRunning adds the ways into a container that runs.
func (t *table) addRunning(h sandboxtest.Host) {
	m, config := h.Manager(t.b)
	streams := config.Spec
	streams.Runtime = "runc" // named, so without a control socket
	var warm, slow []*sandbox.Session
	for i := range t.sessions {
		warm = append(warm, get(t.b, m, message.WorkspaceKey(fmt.Sprint("warm ", i)), config.Spec))
	}
	ids := containers(t.b, h, config.Instance)
	for i := range t.sessions {
		slow = append(slow, get(t.b, m, message.WorkspaceKey(fmt.Sprint("streams ", i)), streams))
	}
	side := t.add("sandbox, warm", 20, "the same under a system call filter and memory limits, and a wake-up each way across the control socket",
		func(i int) error { return execHello(t.b.Context(), warm[i]) })
	for _, c := range ids {
		side.boxes = append(side.boxes, c.ID)
	}
	t.add("sandbox, warm, without control socket", 10, "the engine, which copies both streams through two more processes",
		func(i int) error { return execHello(t.b.Context(), slow[i]) })
	t.add("docker exec, API", 3, "runc, which is started twice to enter the container",
		func(i int) error { return dockerRunner(h, ids[i].ID).hello(t.b.Context()) })
	t.add("docker exec, CLI", 3, "the same, and the start of the docker program", func(i int) error {
		return greeted(exec.Command("docker", "exec", ids[i].ID, "/bin/sh", "-c", hello).Output())
	})
}

// addFirst adds the ways to a first command that begin without a container.
func (t *table) addFirst(h sandboxtest.Host) {
	m, config := h.Manager(t.b)
	t.add("create+start+exec+remove, API", 1, "the engine: file systems, namespaces and cgroups made and removed", func(int) error { return dockerWhole(t.b.Context(), h) })
	t.add("docker run --rm, CLI", 1, "the same", func(int) error {
		return greeted(exec.Command("docker", "run", "--rm", "--network", "none", sandboxtest.Image, "/bin/sh", "-c", hello).Output())
	})
	cold := t.add("first command, cold", 1, "the engine's create and start", func(i int) error {
		return first(t.b.Context(), m, message.WorkspaceKey(fmt.Sprint("cold ", i)), config.Spec)
	})
	cold.tidy = func() { destroyAll(t.b, m, "cold ", t.sessions) }
}

// addPool adds the first commands of new sessions and of those that return, from the pool, and a code run.
func (t *table) addPool(h sandboxtest.Host) {
	m, config := h.Manager(t.b, keepWarm(t.sessions))
	code := spec.CodeSpec(config.Spec)
	for i := range t.sessions { // workspaces to return to, of some entries
		s := get(t.b, m, message.WorkspaceKey(fmt.Sprint("returning ", i)), config.Spec)
		shell(t.b, s, "mkdir -p src/a .git/objects; for i in $(seq 12); do echo $i > file$i; done; touch src/a/b")
	}
	destroyAll(t.b, m, "returning ", t.sessions)
	setup := m.Stats().Pool.Misses
	runManager(t.b, m)
	rest := func() {
		awaitReady(t.b, m, t.sessions)
		eventually(t.b, "nothing is removed any more", func() bool { return len(containers(t.b, h, config.Instance)) == t.sessions })
	}
	keep := func(spec spec.Spec) func() {
		return func() {
			m.SetPools([]sandbox.Pool{{Spec: spec, Size: t.sessions}}, 100)
			rest()
		}
	}
	n := 0
	fresh := t.add("first command, pool, new session", 1, "a warm command, the first in its supervisor, and a rename of a folder", func(i int) error {
		return first(t.b.Context(), m, message.WorkspaceKey(fmt.Sprint("new ", n, " ", i)), config.Spec)
	})
	fresh.prepare = keep(config.Spec)
	fresh.tidy = func() { destroyAll(t.b, m, fmt.Sprint("new ", n, " "), t.sessions); n++ }
	returning := t.add("first command, pool, returning", 1, "the same, with a rename for each entry of the workspace", func(i int) error {
		return first(t.b.Context(), m, message.WorkspaceKey(fmt.Sprint("returning ", i)), config.Spec)
	})
	returning.prepare = fresh.prepare
	returning.tidy = func() { destroyAll(t.b, m, "returning ", t.sessions) }
	run := t.add("code run, pool", 1, "a file written, a warm command, and whatever it left brought home", func(int) error {
		r, err := m.RunCode(t.b.Context(), sandbox.Code{Spec: code, Language: "sh", Program: []byte(hello)})
		return greeted(r.Stdout, err)
	})
	run.prepare = keep(code)
	run.tidy = rest // the next round begins with what the engine's work would hold up
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
func first(ctx context.Context, m *sandbox.Manager, session message.WorkspaceKey, spec spec.Spec) error {
	s, err := m.Get(ctx, session, "default", spec)
	if err != nil {
		return err
	}
	return execHello(ctx, s)
}

func destroyAll(b *testing.B, m *sandbox.Manager, prefix string, n int) {
	b.Helper()
	if err := together(n, func(i int) error { return m.Destroy(b.Context(), message.WorkspaceKey(fmt.Sprint(prefix, i))) }); err != nil {
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

// round takes all sides.
func (t *table) round() {
	for rest := t.sides; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].times == rest[0].times {
			n++
		}
		for i := range rest[0].times {
			for _, s := range rest[:n] {
				s.prepare()
				t.take(s)
				s.tidy()
				if i == 0 && s.times > 1 {
					s.round, s.spent = nil, 0 // it has only warmed the caches
				}
			}
		}
		rest = rest[n:]
	}
	for _, s := range t.sides {
		s.medians = append(s.medians, quantile(s.round, 0.5))
		s.took, s.round = append(s.took, s.round...), nil
		s.cpu, s.spent = s.cpu+s.spent, 0
	}
}

// take lets all sessions run the command once by a side's path.
func (t *table) take(s *side) {
	took := make([]time.Duration, t.sessions)
	spent := processorTime(s.boxes)
	began := time.Now()
	err := together(t.sessions, func(i int) error {
		defer func() { took[i] = time.Since(began) }()
		return s.op(i)
	})
	if err != nil {
		t.b.Fatalf("%s: %v", s.name, err)
	}
	s.spent += processorTime(s.boxes) - spent
	s.round = append(s.round, took...)
}

// processorTime is what this process, its children that have ended and such containers have taken so far.
func processorTime(boxes []string) (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	for _, id := range boxes {
		sum += boxTime(id)
	}
	return sum
}

// boxTime is a container's, in cgroups of version 1 or 2; 0 where they are not to be seen from here.
func boxTime(id string) time.Duration {
	if p, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/cpuacct/docker", id, "cpuacct.usage")); err == nil {
		n, _ := strconv.ParseInt(strings.TrimSpace(string(p)), 10, 64)
		return time.Duration(n)
	}
	for _, folder := range []string{"docker/" + id, "system.slice/docker-" + id + ".scope"} {
		p, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", folder, "cpu.stat"))
		if _, rest, ok := strings.Cut(string(p), "usage_usec "); ok {
			number, _, _ := strings.Cut(rest, "\n")
			n, _ := strconv.ParseInt(number, 10, 64)
			return time.Duration(n) * time.Microsecond
		}
	}
	return 0
}

func (s *side) quantile(q float64) float64 { return quantile(s.took, q) }

// quantile is in milliseconds.
func quantile(took []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(took))
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// over is how many times slower a is than b: the median over the rounds.
func over(a, b *side) float64 {
	ratios := make([]float64, len(a.medians))
	for i := range ratios {
		ratios[i] = a.medians[i] / b.medians[i]
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// report prints the table: benchmarks' own lines have no room for it.
func (t *table) report(rounds int) {
	byName := map[string]*side{}
	for _, s := range t.sides {
		byName[s.name] = s
	}
	host, warm := byName["host fork+exec"], byName["sandbox, warm"]
	fmt.Printf("\n%d at a time, %d rounds on %d cores, milliseconds\n", t.sessions, rounds, runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "p50\tp95\tx host\tx warm\tcpu\t \tlimit")
	for _, s := range t.sides {
		cpu := "-" // the engine's is not seen
		if s == host || s.boxes != nil {
			cpu = fmt.Sprintf("%.2f", float64(s.cpu.Microseconds())/1000/float64(len(s.took)))
		}
		fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t%.2f\t%s\t  %s\t  %s\n",
			s.quantile(0.5), s.quantile(0.95), over(s, host), over(s, warm), cpu, s.name, s.limit)
	}
	w.Flush()
	fresh := byName["first command, pool, new session"]
	t.b.ReportMetric(over(warm, host), "warm/host")
	t.b.ReportMetric(over(byName["docker exec, API"], warm), "exec-api/warm")
	t.b.ReportMetric(over(byName["docker exec, CLI"], warm), "exec-cli/warm")
	t.b.ReportMetric(fresh.quantile(0.5), "new-p50-ms")
	t.b.ReportMetric(byName["first command, pool, returning"].quantile(0.5), "returning-p50-ms")
	t.b.ReportMetric(over(byName["create+start+exec+remove, API"], fresh), "whole/new")
	t.b.ReportMetric(0, "ns/op")
}

// dockerRunner is the engine's own way into a container, without its command line program. It leaves what it started.
func dockerRunner(h sandboxtest.Host, id string) runner {
	return func(ctx context.Context, script string, stdin io.Reader, stdout io.Writer) error {
		made, err := h.API.ContainerExecCreate(ctx, id, container.ExecOptions{
			Cmd: []string{"/bin/sh", "-c", script}, AttachStdin: stdin != nil, AttachStdout: true,
		})
		if err != nil {
			return err
		}
		stream, err := h.API.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
		if err != nil {
			return err
		}
		defer stream.Close()
		if stdin != nil {
			if _, err := io.Copy(stream.Conn, stdin); err != nil {
				return err
			}
			if err := stream.CloseWrite(); err != nil {
				return err
			}
		}
		if _, err := stdcopy.StdCopy(stdout, io.Discard, stream.Reader); err != nil {
			return err
		}
		ended, err := h.API.ContainerExecInspect(ctx, made.ID)
		if err == nil && ended.ExitCode != 0 {
			err = fmt.Errorf("exit code %d", ended.ExitCode)
		}
		return err
	}
}

// dockerSleeper starts a container that does nothing.
func dockerSleeper(ctx context.Context, h sandboxtest.Host) (id string, err error) {
	made, err := h.API.ContainerCreate(ctx, &container.Config{Image: sandboxtest.Image, Entrypoint: []string{"sleep", "10000"}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		return "", err
	}
	return made.ID, h.API.ContainerStart(ctx, made.ID, container.StartOptions{})
}

// dockerWhole makes a container, runs the command by the engine's exec and removes it.
func dockerWhole(ctx context.Context, h sandboxtest.Host) error {
	id, err := dockerSleeper(ctx, h)
	if id == "" {
		return err
	}
	if err == nil {
		err = dockerRunner(h, id).hello(ctx)
	}
	return cmp.Or(err, h.API.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}))
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
				if live[from+i], err = m.Get(b.Context(), message.WorkspaceKey(fmt.Sprint("live ", from+i)), "default", config.Spec); err != nil {
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
			err := together(4, func(i int) error { return m.Destroy(b.Context(), message.WorkspaceKey(fmt.Sprint("live ", from+i))) })
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
			if p := m.Stats().Pool; p.Misses[sandbox.MissWorkspace]+p.Misses[pool.MissEmpty] > 1 {
				b.Errorf("the pool missed: %+v", p)
			}
			slices.Sort(took.took)
			b.ReportMetric(took.quantile(0.5), "p50-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
