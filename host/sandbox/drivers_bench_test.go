package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// driverRounds is how often each figure is taken from each column, in turn; the median counts.
const driverRounds = 9

// BenchmarkDrivers prints one table with a column for each driver that this machine has, and for what people use instead.
//
//	go test ./host/sandbox -run - -bench Drivers -benchtime 1x
func BenchmarkDrivers(b *testing.B) {
	beside(b, nil, []adder{{"host", onHost}, {"docker", onDocker}, {"docker exec", dockerAlone}, {"podman", onPodman}, {"native", onNative}, {"bubblewrap", bubblewrap}})
}

type adder struct {
	name string
	add  func(*testing.B) column
}

// beside compares columns with those that can be added. The rest runs inside the benchmark of a column, at whose end its sandboxes go.
func beside(b *testing.B, columns []column, rest []adder) {
	if len(rest) == 0 {
		compare(b, columns, 1)
		compare(b, columns, 16)
		return
	}
	added := false
	b.Run(rest[0].name, func(b *testing.B) {
		c := rest[0].add(b)
		c.name, added = rest[0].name, true
		beside(b, append(columns, c), rest[1:])
	})
	if !added { // it is missing here
		beside(b, columns, rest[1:])
	}
}

// column is one way to run commands. A nil function is a figure that it does not have.
type column struct {
	name    string
	manager *sandbox.Manager
	spec    spec.Spec
	driver  driver.Driver
	// instance has the driver's sandboxes.
	instance string
	// warm and first run a command: in session i, which has run one already, and in one that is new.
	warm, first func(ctx context.Context, i int) error
}

// managed is the column of a driver, whose manager keeps no pool until a figure asks for one.
func managed(b *testing.B, m *sandbox.Manager, c sandbox.Config) column {
	s := c.Spec
	runManager(b, m)
	return column{
		manager: m, spec: s, driver: c.Driver, instance: c.Instance,
		warm: func(ctx context.Context, i int) error {
			s, err := m.Get(ctx, message.WorkspaceKey(fmt.Sprint("warm ", i)), "default", s)
			if err != nil {
				return err
			}
			return execHello(ctx, s)
		},
		first: func(ctx context.Context, i int) error {
			return first(ctx, m, message.WorkspaceKey(fmt.Sprint("cold ", i)), s)
		},
	}
}

func onHost(*testing.B) column {
	run := func(context.Context, int) error {
		return greeted(exec.Command(sandboxtest.Busybox, "sh", "-c", hello).Output())
	}
	return column{warm: run, first: run}
}

func onDocker(b *testing.B) column {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b, keepWarm(0))
	return managed(b, m, config)
}

func onPodman(b *testing.B) column {
	h := sandboxtest.Podman(b)
	m, config := h.Manager(b, keepWarm(0))
	return managed(b, m, config)
}

// dockerAlone is the engine's own way, without Flynn.
func dockerAlone(b *testing.B) column {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	get(b, m, "alone", config.Spec)
	id := containers(b, h, config.Instance)[0].ID
	return column{
		warm:  func(ctx context.Context, _ int) error { return greeted(dockerExec(ctx, h, id)) },
		first: func(ctx context.Context, _ int) error { return dockerWhole(ctx, h) },
	}
}

func onNative(b *testing.B) column {
	dir := b.TempDir()
	supervisor := func() (string, error) { return program.FindSupervisor(slog.New(slog.DiscardHandler)) }
	d, err := native.New(native.Config{Folder: filepath.Join(dir, "native"), Supervisor: supervisor})
	if err == nil {
		err = d.Ping(b.Context())
	}
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { d.Close() })
	path, err := supervisor()
	if err != nil {
		b.Fatal(err)
	}
	s := sandboxtest.Spec()
	s.BestEffort = true
	config := sandbox.Config{
		Driver: d, Instance: "bench-native", WorkspaceRoot: filepath.Join(dir, "workspaces"), Supervisor: path, Spec: s, Log: slog.New(slog.DiscardHandler),
	}
	keepWarm(0)(&config)
	m, err := sandbox.New(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.DestroyAll(context.Background()) })
	return managed(b, m, config)
}

func bubblewrap(b *testing.B) column {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip(err)
	}
	run := func(context.Context, int) error {
		return greeted(exec.Command(path, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
			sandboxtest.Busybox, "sh", "-c", hello).Output())
	}
	return column{warm: run, first: run}
}

// compare takes all figures.
func compare(b *testing.B, columns []column, sessions int) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d at a time\t", sessions)
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", c.name)
	}
	fmt.Fprintln(w)
	for _, f := range figures {
		took := make([][]time.Duration, len(columns))
		errs := make([]error, len(columns))
		for range driverRounds {
			for i, c := range columns {
				if errs[i] == nil {
					var d time.Duration
					d, errs[i] = f.take(b.Context(), c, sessions)
					took[i] = append(took[i], d)
				}
			}
		}
		fmt.Fprintf(w, "%s\t", f.name)
		for i := range columns {
			switch {
			case errors.Is(errs[i], errNone):
				fmt.Fprint(w, "-\t")
			case errs[i] != nil:
				b.Errorf("%s: %s: %v", f.name, columns[i].name, errs[i])
				fmt.Fprint(w, "failed\t")
			default:
				slices.Sort(took[i])
				fmt.Fprintf(w, "%.2f ms\t", quantile(took[i][1:], 0.5))
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "memory of an idle one\t")
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", idle(b.Context(), c))
	}
	fmt.Fprintln(w)
	w.Flush()
}

// errNone is the error of a figure that a column does not have.
var errNone = errors.New("it has none")

var figures = []struct {
	name string
	take func(ctx context.Context, c column, sessions int) (time.Duration, error)
}{
	{"warm command", func(ctx context.Context, c column, n int) (time.Duration, error) {
		return timed(n, func(i int) error { return c.warm(ctx, i) })
	}},
	{"first command, no pool", func(ctx context.Context, c column, n int) (time.Duration, error) {
		took, err := timed(n, func(i int) error { return c.first(ctx, i) })
		if c.manager != nil {
			err = errors.Join(err, together(n, func(i int) error { return c.manager.Destroy(ctx, message.WorkspaceKey(fmt.Sprint("cold ", i))) }))
		}
		return took, err
	}},
	{"first command, from a pool", func(ctx context.Context, c column, n int) (time.Duration, error) {
		if c.manager == nil {
			return 0, errNone
		}
		c.manager.SetPools([]sandbox.Pool{{Spec: c.spec, Size: n}}, 100)
		for c.manager.Stats().Pool.Ready < n {
			time.Sleep(time.Millisecond)
		}
		took, err := timed(n, func(i int) error { return c.first(ctx, i) })
		c.manager.SetPools(nil, 100)
		return took, errors.Join(err, together(n, func(i int) error { return c.manager.Destroy(ctx, message.WorkspaceKey(fmt.Sprint("cold ", i))) }))
	}},
	{"write of 1 MiB", func(ctx context.Context, c column, n int) (time.Duration, error) {
		content := make([]byte, 1<<20)
		return c.timed(ctx, n, func(s *sandbox.Session) error { return s.WriteFile(ctx, "f", content, 0) })
	}},
	{"output of 1 GiB together", func(ctx context.Context, c column, n int) (time.Duration, error) {
		return c.timed(ctx, n, func(s *sandbox.Session) error {
			r, err := s.Exec(ctx, machine.Command{Script: fmt.Sprintf("dd if=/dev/zero bs=1M count=%d 2>/dev/null", 1<<10/n)})
			if total := int64(len(r.Stdout)) + r.Dropped; err == nil && total != 1<<30/int64(n) {
				return fmt.Errorf("%d bytes came", total)
			}
			return err
		})
	}},
	{"abort to nothing left", func(ctx context.Context, c column, n int) (time.Duration, error) {
		return c.timed(ctx, n, func(s *sandbox.Session) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			running, err := s.Spawn(ctx, machine.Command{Script: "sleep 1000 & echo; sleep 1000"})
			if err != nil {
				return err
			}
			defer running.Close()
			if _, err := running.Stdout.Read(make([]byte, 1)); err != nil {
				return err
			}
			cancel()
			_, err = running.Wait(context.WithoutCancel(ctx))
			return err
		})
	}},
}

// timed is how long all take that begin at the same time.
func timed(n int, do func(i int) error) (time.Duration, error) {
	began := time.Now()
	err := together(n, do)
	return time.Since(began), err
}

// timed is timed for the sessions of a driver.
func (c column) timed(ctx context.Context, n int, do func(s *sandbox.Session) error) (time.Duration, error) {
	if c.manager == nil {
		return 0, errNone
	}
	sessions := make([]*sandbox.Session, n)
	err := together(n, func(i int) (err error) {
		sessions[i], err = c.manager.Get(ctx, message.WorkspaceKey(fmt.Sprint("warm ", i)), "default", c.spec)
		return err
	})
	if err != nil {
		return 0, err
	}
	return timed(n, func(i int) error { return do(sessions[i]) })
}

// idle is the memory of a sandbox without a command: what the engine counts, or else what the processes hold that this one has started.
func idle(ctx context.Context, c column) string {
	meter, ok := c.driver.(driver.Meter)
	if !ok {
		return ownMemory()
	}
	owned, err := c.driver.List(ctx, c.instance)
	i := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.State == "running" })
	if err != nil || i < 0 {
		return "unknown"
	}
	u, err := meter.Usage(ctx, owned[i].ID)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f MiB", float64(u.Memory)/(1<<20))
}

// ownMemory is what the supervisors below this process hold, each: their private memory and their share of the rest.
func ownMemory() string {
	var sum, n int
	for _, pid := range descendants(os.Getpid()) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil || !strings.HasPrefix(string(name), ".flynn-sandboxd") {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, _ := strconv.Atoi(f[1])
				sum, n = sum+kib, n+1
			}
		}
	}
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f MiB", float64(sum)/float64(n)/1024)
}

// descendants returns the processes that a process has started, and those that these have started.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}
