package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// hostWord makes this test program a host of its own, which does what it is told on its standard input.
const hostWord = "FLYNN_TEST_HOST"

// hostOrder is what such a host is made of.
type hostOrder struct {
	Instance, Root string
	Lease          time.Duration
	Pool           int
	Reconcile      bool
	PauseAfter     time.Duration
	Start          []string
	Dialed         string // folder of a sandboxtest.Dialed
	Apart          bool   // see there
	Kubernetes     cluster
	Engine         docker.Config // of an engine that hosts share
	Workspace      string        // see spec.Spec
	Name, Store    string        // of the host among others, and the address of the database that they share
}

// hostCall is one thing that it shall do, a line of JSON; the answer is another line.
type hostCall struct {
	Do      string
	Session message.WorkspaceKey
	Script  string
	ID      string
	Offset  int64
}

type hostAnswer struct {
	Text      string
	Process   machine.Process
	Processes []machine.Process
	Held      []string
	Stats     sandbox.Stats
	Error     string
}

// TestHostProcess is no test, but the other process's life.
func TestHostProcess(t *testing.T) {
	text := os.Getenv(hostWord)
	if text == "" {
		t.Skip("this is what the tests of restarts run in another process")
	}
	var o hostOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	engine := sandboxtest.Engine(t)
	config := engine.Config(t)
	config.Instance, config.WorkspaceRoot, config.Lease = o.Instance, o.Root, o.Lease
	if o.Dialed != "" {
		d := engine.DialedIn(t, o.Dialed)
		d.Apart = o.Apart
		d.Adjust(&config)
	}
	if o.Kubernetes.Plugin != "" {
		o.Kubernetes.adjust(t)(&config)
	}
	if o.Engine.Engine != "" {
		o.adjustTo(t, &config)
	}
	config.Spec.Workspace = o.Workspace
	config.PauseAfter, config.Spec.Start = o.PauseAfter, o.Start
	config.Pools, config.PoolCPU = []sandbox.Pool{{Spec: config.Spec, Size: o.Pool}}, 1
	config.Log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	among := &amongHosts{leave: func() {}}
	if o.Store != "" {
		among = o.join(t, &config)
	}
	m, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if o.Reconcile {
		if err := m.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	fmt.Printf("\nhost %s\n", must(json.Marshal(hostAnswer{Stats: m.Stats()})))
	var mu sync.Mutex // one answer at a time
	for calls := json.NewDecoder(os.Stdin); ; {
		var c hostCall
		if err := calls.Decode(&c); err != nil {
			return
		}
		if c.Do == "end" { // as flynn does it
			cancel()
			running.Wait()
		}
		a := among.serve(t, c, func(ctx context.Context) hostAnswer { return serveCall(ctx, t, engine, m, config.Spec, o.Instance, c) })
		mu.Lock()
		fmt.Printf("\nhost %s\n", must(json.Marshal(a)))
		mu.Unlock()
		if c.Do == "end" {
			among.leave()
			return
		}
	}
}

func must(p []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return p
}

func serveCall(ctx context.Context, t *testing.T, engine sandboxtest.Host, m *sandbox.Manager, spec spec.Spec, instance string, c hostCall) (a hostAnswer) {
	fail := func(err error) hostAnswer {
		if err != nil {
			a.Error = err.Error()
		}
		a.Stats = m.Stats()
		return a
	}
	if c.Do == "end" {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return fail(m.DestroyAll(ctx))
	}
	switch c.Do { // what concerns no session, or no container of one
	case "held":
		a.Held = m.Held()
		return a
	case "reconcile":
		return fail(m.Reconcile(t.Context()))
	case "destroy":
		return fail(m.Destroy(t.Context(), c.Session))
	case "volume":
		_, err := engine.Driver.EnsureVolume(t.Context(), c.ID, passing(instance))
		return fail(err)
	}
	s, err := m.Get(ctx, c.Session, "default", spec)
	if err != nil {
		return fail(err)
	}
	switch c.Do {
	case "exec":
		var r machine.Result
		r, err = s.Exec(ctx, machine.Command{Script: c.Script})
		a.Text = string(r.Stdout)
	case "start":
		a.Process, err = s.Start(ctx, machine.Command{Script: c.Script})
	case "processes":
		a.Processes, err = s.Processes(ctx)
	case "output":
		var o machine.Output
		o, err = s.Output(ctx, c.ID, c.Offset, 1<<20)
		a.Text = string(o.Data)
	case "kill":
		a.Process, err = s.Kill(ctx, c.ID)
	case "usr1":
		err = s.Signal(ctx, c.ID, syscall.SIGUSR1)
	case "wait":
		a.Process, err = s.Wait(ctx, c.ID)
	case "write":
		err = s.WriteFile(ctx, "f", make([]byte, 1<<20), 0)
	}
	return fail(err)
}

// passing are the labels of what has expired already.
func passing(instance string) map[string]string {
	return map[string]string{driver.LabelInstance: instance, driver.LabelExpires: time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)}
}

// remoteHost is a host in another process.
type remoteHost struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	first hostAnswer
	said  []string // what is no answer
}

// newHost starts one and waits until it is ready.
func newHost(t testing.TB, o hostOrder) *remoteHost {
	t.Helper()
	h := &remoteHost{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHostProcess$", "-test.count=1", "-test.timeout=10m")}
	temp, err := os.MkdirTemp("", "host") // a process that is killed leaves its own; t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	h.cmd.Env = append(os.Environ(), "TMPDIR="+temp, hostWord+"="+string(must(json.Marshal(o))))
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		h.in, err = h.cmd.StdinPipe()
	}
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.kill()
		if t.Failed() {
			t.Logf("host %d said:\n%s", h.cmd.Process.Pid, strings.Join(h.said, "\n"))
		}
	})
	h.lines = bufio.NewScanner(out)
	h.lines.Buffer(nil, 8<<20)
	h.first = h.answer()
	return h
}

// kill ends the process without a word, as a crash does.
func (h *remoteHost) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// tell begins a call; its answer is not read.
func (h *remoteHost) tell(c hostCall) {
	_, _ = h.in.Write(append(must(json.Marshal(c)), '\n'))
}

func (h *remoteHost) answer() (a hostAnswer) {
	h.t.Helper()
	for h.lines.Scan() {
		if text, ok := strings.CutPrefix(h.lines.Text(), "host "); ok {
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				h.t.Fatal(err)
			}
			return a
		}
		if text := h.lines.Text(); text != "" {
			h.said = append(h.said, text)
		}
	}
	h.t.Fatalf("the other process has ended: %s", strings.Join(h.said, "\n"))
	return a
}

// do does a call that must succeed.
func (h *remoteHost) do(c hostCall) hostAnswer {
	h.t.Helper()
	h.tell(c)
	a := h.answer()
	if a.Error != "" {
		h.t.Fatalf("%+v: %s", c, a.Error)
	}
	return a
}

// counter counts in the background, a line each hundredth of a second.
const counter = `trap 'echo got; exit 5' USR1; i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`

// counted fails unless the text is 1, 2, 3 and so on, and returns how far it goes.
func counted(t testing.TB, text string) int {
	t.Helper()
	if text == "" {
		return 0
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the counter is %q", i+1, line)
		}
	}
	return len(lines)
}

// restartable is an instance whose host can be started again and again.
func restartable(t testing.TB) (sandboxtest.Host, hostOrder) {
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	t.Cleanup(func() { clearInstance(t, h, config.Instance) })
	return h, hostOrder{Instance: config.Instance, Root: config.WorkspaceRoot, Lease: time.Minute, Reconcile: true}
}

// clearInstance removes what a test has left on purpose, or for lack of success.
func clearInstance(t testing.TB, h sandboxtest.Host, instance string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range containers(t, h, instance) {
		if err := h.Driver.Remove(ctx, c.ID); err != nil {
			t.Error(err)
		}
	}
}

// A process in the background, its output and its handle outlast the host, however that ends.
func TestBackgroundProcessOutlastsTheHost(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(h *remoteHost){
		"killed": (*remoteHost).kill,
		"orderly": func(h *remoteHost) {
			if a := h.do(hostCall{Do: "end"}); a.Stats.Detached != 1 {
				h.t.Errorf("stats at the end: %+v", a.Stats)
			}
			_ = h.cmd.Wait()
		},
	} {
		t.Run(how, func(t *testing.T) {
			h, order := restartable(t)
			folder := workspace.Path(order.Root, "s")
			first := newHost(t, order)
			p := first.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
			short := first.do(hostCall{Do: "start", Session: "s", Script: "echo over; until [ -e go ]; do sleep 0.01; done; exit 3"}).Process
			first.do(hostCall{Do: "exec", Session: "s", Script: "sleep 0.1"})
			first.do(hostCall{Do: "wait", Session: "gone", ID: first.do(hostCall{Do: "start", Session: "gone", Script: "true"}).Process.ID})
			if how == "killed" { // with a command in the foreground
				first.tell(hostCall{Do: "exec", Session: "s", Script: "touch begun; trap '' TERM; sleep 1000"})
				eventually(t, "the foreground command runs", func() bool { return exists(folder + "/begun") })
			}
			before := containers(t, h, order.Instance)
			end(first)
			if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			eventually(t, "only the container with processes is left", func() bool { return len(containers(t, h, order.Instance)) == 1 })

			began := time.Now()
			second := newHost(t, order)
			t.Logf("the second host was ready after %v", time.Since(began))
			if second.first.Stats.Adopted != 1 {
				t.Fatalf("stats at the start: %+v", second.first.Stats)
			}
			if now := containers(t, h, order.Instance); len(now) != 1 || len(before) != 2 {
				t.Fatalf("containers: %+v", now)
			}
			all := second.do(hostCall{Do: "processes", Session: "s"}).Processes
			if len(all) != 2 || all[0].ID != p.ID || all[0].PID != p.PID || all[0].Script != p.Script || !all[0].Running ||
				all[0].Started.Sub(p.Started).Abs() > time.Second {
				t.Fatalf("processes: %+v, want %+v first", all, p)
			}
			if ended := second.do(hostCall{Do: "wait", Session: "s", ID: short.ID}).Process; ended.Running || ended.Result.ExitCode != 3 {
				t.Errorf("what ended meanwhile: %+v", ended)
			}
			if got := second.do(hostCall{Do: "output", Session: "s", ID: short.ID}).Text; got != "over\n" {
				t.Errorf("its output: %q", got)
			}
			n := counted(t, second.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text)
			eventually(t, "the counter counts on", func() bool {
				return counted(t, second.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text) > n+5
			})
			if got := second.do(hostCall{Do: "exec", Session: "s", Script: "pidof sleep | wc -w; ls"}).Text; !strings.HasPrefix(got, "1\n") && !strings.HasPrefix(got, "0\n") {
				t.Errorf("processes and files: %q, want the counter's sleep at most", got)
			}
			next := second.do(hostCall{Do: "start", Session: "s", Script: "sleep 1000"}).Process
			if next.ID == p.ID || next.ID == short.ID {
				t.Errorf("a new process has the handle %s of an old one", next.ID)
			}
			second.do(hostCall{Do: "usr1", Session: "s", ID: p.ID})
			if ended := second.do(hostCall{Do: "wait", Session: "s", ID: p.ID}).Process; ended.Running || ended.Result.ExitCode != 5 {
				t.Errorf("after the signal: %+v", ended)
			}
			if ended := second.do(hostCall{Do: "kill", Session: "s", ID: next.ID}).Process; ended.Running || ended.Result.Kill == nil || ended.Result.Kill.Survivors != 0 {
				t.Errorf("killed: %+v", ended)
			}
			second.do(hostCall{Do: "end"})
			if left := containers(t, h, order.Instance); len(left) != 0 {
				t.Errorf("left at the end: %+v", left)
			}
			if left := leftFiles(t, order.Root); len(left) != 0 {
				t.Errorf("files left at the end: %v", left)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// leftFiles are the records, control sockets and marks in an instance's folder.
func leftFiles(t testing.TB, root string) []string {
	var left []string
	for _, pattern := range []string{"box-*", "control-*", "host-*"} {
		found, err := filepath.Glob(filepath.Join(root, ".run-*", pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return left
}

// Nobody comes back: the container ends by itself when its lease has passed.
func TestLeaseEndsByItself(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	order.Lease = 12 * time.Second
	first := newHost(t, order)
	first.do(hostCall{Do: "start", Session: "s", Script: "trap '' TERM; " + counter})
	died := time.Now()
	first.kill()
	eventually(t, "the container is gone", func() bool { return len(containers(t, h, order.Instance)) == 0 })
	took := time.Since(died)
	t.Logf("gone after %v", took)
	if took < order.Lease/4 { // the last renewal may be some time ago where the machine has other work
		t.Errorf("gone after %v, before its lease of %v", took, order.Lease)
	}
}

// A container that stands still because nobody uses it sees the end of its host all the same.
func TestIdleContainerEndsWithItsHost(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	order.Lease, order.PauseAfter, order.Start = time.Hour, time.Millisecond, []string{"sleep", "86399"}
	first := newHost(t, order)
	first.do(hostCall{Do: "exec", Session: "s", Script: "true"})
	id := containers(t, h, order.Instance)[0].ID
	eventually(t, "it stands still", func() bool { return still(t, h, id) })
	first.kill()
	eventually(t, "the container is gone", func() bool { return len(containers(t, h, order.Instance)) == 0 })
}

// While the host lives the lease never runs out, not even at rest.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Lease = 10 * time.Second })
	s := get(t, m, "s", config.Spec)
	p := start(t, s, machine.Command{Script: "sleep 15; echo done"})
	if ended, err := s.Wait(t.Context(), p.ID); err != nil || ended.Result.ExitCode != 0 {
		t.Errorf("ended %+v (%v)", ended, err)
	}
	if o := output(t, s, p.ID, 0, 100); string(o.Data) != "done\n" {
		t.Errorf("output %q", o.Data)
	}
}

// A host that is stopped, as by a debugger, has not gone; but its containers do not wait for ever.
func TestLeaseOfAHostThatHangs(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	order.Lease = 5 * time.Second
	first := newHost(t, order)
	first.do(hostCall{Do: "start", Session: "s", Script: counter})
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container is gone", func() bool { return len(containers(t, h, order.Instance)) == 0 })
}

// A container that the configuration would now make differently is not adopted.
func TestAnotherSpecificationIsNotAdopted(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	first := newHost(t, order)
	first.do(hostCall{Do: "start", Session: "s", Script: counter})
	first.kill()
	config := h.Config(t)
	for name, current := range map[string]func(string) (spec.Spec, bool){
		"changed": func(string) (spec.Spec, bool) { s := config.Spec; s.PidsLimit++; return s, true },
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := h.Manager(t, func(c *sandbox.Config) {
				c.Instance, c.WorkspaceRoot, c.Lease, c.Current = order.Instance, order.Root, time.Minute, current
			})
			if err := m.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := containers(t, h, order.Instance); len(left) != 0 || m.Stats().Adopted != 0 {
				t.Errorf("left: %+v, stats %+v", left, m.Stats())
			}
			if p, err := get(t, m, "s", config.Spec).Processes(t.Context()); err != nil || len(p) != 0 {
				t.Errorf("processes %+v (%v)", p, err)
			}
		})
	}
}

// Commands inside see the control socket open again, and get nowhere by it.
func TestImpostorsAtTheControlSocket(t *testing.T) {
	t.Parallel()
	h, order := restartable(t)
	host := newHost(t, order)
	p := host.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
	// A flood of connections, silent ones and such with a lie.
	flood := host.do(hostCall{Do: "start", Session: "s", Script: `while :; do
		if [ -e /.flynn-control/s ]; then
			echo seen
			(nc local:/.flynn-control/s </dev/null >/dev/null 2>&1 & printf '\0\0\0\2\37\0\0\0\0\0\0\0{}' | nc local:/.flynn-control/s >/dev/null 2>&1 &)
		fi; sleep 0.001; done`}).Process
	seen := 0
	for round := 0; round < 30 && seen < 3; round++ {
		host.kill()
		if host = newHost(t, order); host.first.Stats.Adopted != 1 {
			t.Fatalf("round %d: %+v", round, host.first.Stats)
		}
		counted(t, host.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text)
		seen = strings.Count(host.do(hostCall{Do: "output", Session: "s", ID: flood.ID}).Text, "seen")
	}
	if seen == 0 {
		t.Error("the flood never saw the control socket open")
	}
	host.do(hostCall{Do: "destroy", Session: "s"})
	host.do(hostCall{Do: "end"})
	if left := containers(t, h, order.Instance); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
