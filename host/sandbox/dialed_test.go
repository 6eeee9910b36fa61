package sandbox_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// ways are those in which the supervisor of a sandboxtest.Dialed listens.
var ways = map[string]bool{"a Unix socket": false, "TCP": true}

func TestDialedSandbox(t *testing.T) {
	for name, tcp := range ways {
		t.Run(name, func(t *testing.T) {
			h := sandboxtest.Engine(t)
			m, config := h.Manager(t, h.Dialed(t, tcp).Adjust)
			s := get(t, m, "s", config.Spec)
			for i := range 20 {
				if out := shell(t, s, fmt.Sprint("echo ", i)); out != fmt.Sprintln(i) {
					t.Errorf("printed %q", out)
				}
			}
			in := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
			r, err := s.Exec(t.Context(), machine.Command{Script: "cat", Stdin: in, MaxOutput: 8 << 20})
			if err != nil || !bytes.Equal(r.Stdout, in) {
				t.Errorf("%d bytes came back (%v)", len(r.Stdout), err)
			}
			if err := s.WriteFile(t.Context(), "f", in, 0); err != nil {
				t.Error(err)
			}
			if out := shell(t, s, "wc -c <f; ulimit -n; ulimit -Hn"); out != "4194304\n1024\n1024\n" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// No command reads the identity, in whatever way.
func TestIdentityIsTheSupervisors(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, h.Dialed(t, false).Adjust)
	s := get(t, m, "s", config.Spec)
	for _, script := range []string{
		"cat /.flynn-identity", "cat /proc/1/root/.flynn-identity", "cat /proc/1/environ", "cat /proc/1/mem", "cat /proc/1/maps", "cat /proc/1/fd/*", "ls /proc/1/fd",
		"cat /proc/1/task/*/mem", "dd if=/proc/1/mem bs=4096 count=1 skip=1024", "cp /.flynn-identity .", "ln /.flynn-identity .", "chmod 644 /.flynn-identity",
		"mv /.flynn-identity /tmp", "cat </.flynn-listen/s", "ls /.flynn-listen", "echo x >/.flynn-identity",
	} {
		r, err := s.Exec(t.Context(), machine.Command{Script: script})
		if err != nil || r.ExitCode == 0 || bytes.Contains(r.Stdout, []byte("BEGIN")) {
			t.Errorf("%s: exit code %d, %.200q (%v)", script, r.ExitCode, r.Stdout, err)
		}
	}
	out := shell(t, s, "tr '\\0' ' ' </proc/1/cmdline; env; ls -ln /.flynn-identity")
	if strings.Contains(out, "BEGIN") || strings.Contains(out, "KEY") || !strings.Contains(out, "-r--------") {
		t.Errorf("seen inside: %q", out)
	}
}

// Commands go on while a proxy cuts the connection hundreds of times: megabytes go in and come out, and each command runs once.
func TestDialedThroughCuts(t *testing.T) {
	h := sandboxtest.Engine(t)
	d := h.Dialed(t, false)
	cuts := newCutter(t)
	d.Through = cuts.through
	m, config := h.Manager(t, d.Adjust, func(c *sandbox.Config) { c.Spec.Timeout = 5 * time.Minute }) // most cuts are in a handshake
	s := get(t, m, "s", config.Spec)
	cuts.most.Store(200_000)
	in := make([]byte, 12<<20)
	rand.NewChaCha8([32]byte{1}).Read(in)
	r, err := s.Exec(t.Context(), machine.Command{Script: "cat", Stdin: in, MaxOutput: 32 << 20, Timeout: time.Minute})
	if err != nil || !bytes.Equal(r.Stdout, in) {
		t.Errorf("%d of %d bytes came back unchanged (%v)", len(r.Stdout), len(in), err)
	}
	cuts.most.Store(6_000) // more than a handshake takes
	for i := 1; i <= 500; i++ {
		if out := shell(t, s, "echo x >>ran; wc -l <ran"); out != fmt.Sprintln(i) {
			t.Fatalf("command %d was run for the %qth time", i, out)
		}
	}
	if n := cuts.cuts.Load(); n < 200 {
		t.Errorf("it was cut %d times only", n)
	}
	t.Logf("cut %d times", cuts.cuts.Load())
}

// cutter is a proxy before Unix sockets that cuts connections after a random number of bytes.
type cutter struct {
	t          testing.TB
	most, cuts atomic.Int64
	work       sync.WaitGroup
}

func newCutter(t testing.TB) *cutter {
	c := &cutter{t: t}
	t.Cleanup(c.work.Wait) // what it listens with is closed before
	return c
}

// through returns a new endpoint before another one.
func (c *cutter) through(at driver.Endpoint) driver.Endpoint {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Error(err)
		return at
	}
	c.work.Go(func() {
		defer l.Close()
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second)) // the host asks for the endpoint each time
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial(at.Network, at.Address)
		if err != nil {
			near.Close()
			return
		}
		c.work.Go(func() { c.pass(near, far) })
		c.work.Go(func() { c.pass(far, near) })
	})
	return driver.Endpoint{Network: "tcp", Address: l.Addr().String()}
}

func (c *cutter) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 8<<10)
	left := int64(-1)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if most := c.most.Load(); left < 0 && most > 0 {
			left = rand.Int64N(most)
		}
		if left >= 0 {
			if left -= int64(n); left < 0 {
				_, _ = to.Write(buf[:int64(n)+left])
				c.cuts.Add(1)
				return
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dialedHosts is restartable for supervisors that listen.
func dialedHosts(t testing.TB) (sandboxtest.Host, hostOrder) {
	h, order := restartable(t)
	order.Dialed = h.Dialed(t, false).Folder
	return h, order
}

// A host that was killed has a successor, which finds the supervisor and all that runs.
func TestDialedSandboxOutlastsTheHost(t *testing.T) {
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
			h, order := dialedHosts(t)
			first := newHost(t, order)
			p := first.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
			before := containers(t, h, order.Instance)
			end(first)
			for generation := range 3 { // each with a higher epoch
				next := newHost(t, order)
				if next.first.Stats.Adopted != 1 {
					t.Fatalf("generation %d: stats %+v", generation, next.first.Stats)
				}
				if all := next.do(hostCall{Do: "processes", Session: "s"}).Processes; len(all) != 1 || all[0].ID != p.ID || !all[0].Running {
					t.Errorf("generation %d: processes %+v", generation, all)
				}
				if n := counted(t, next.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text); n == 0 {
					t.Error("no output is kept")
				}
				if text := next.do(hostCall{Do: "exec", Session: "s", Script: "echo again"}).Text; text != "again\n" {
					t.Errorf("generation %d: printed %q", generation, text)
				}
				end(next)
			}
			if after := containers(t, h, order.Instance); len(after) != 1 || after[0].ID != before[0].ID {
				t.Errorf("containers %v, before %v", after, before)
			}
			last := newHost(t, order)
			last.do(hostCall{Do: "destroy", Session: "s"})
			if left := containers(t, h, order.Instance); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A host that was taken for dead comes back: it is told that another one has its sandbox, and neither ends nor uses that any more.
func TestOldOwnerIsRefused(t *testing.T) {
	h, order := dialedHosts(t)
	first := newHost(t, order)
	p := first.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
	first.tell(hostCall{Do: "exec", Session: "s", Script: "touch begun; exec sleep 1000"})
	eventually(t, "the foreground command runs", func() bool { return exists(workspace.Path(order.Root, "s") + "/begun") })
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(order.Root, "*", "host-*.lock"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks %v (%v)", marks, err)
	}
	if err := os.Remove(marks[0]); err != nil { // as if it were another machine's
		t.Fatal(err)
	}
	second := newHost(t, order)
	if second.first.Stats.Adopted != 1 {
		t.Fatalf("stats %+v", second.first.Stats)
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if a := first.answer(); !strings.Contains(a.Error, "another host has taken this sandbox over") {
		t.Errorf("the old owner was told %q", a.Error)
	}
	first.do(hostCall{Do: "reconcile"})
	if beside := newHost(t, order); beside.first.Stats.Adopted != 0 {
		t.Errorf("a third host has adopted it too: %+v", beside.first.Stats)
	} else {
		beside.do(hostCall{Do: "end"})
	}
	n := counted(t, second.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text)
	if a := first.do(hostCall{Do: "end"}); a.Stats.Detached != 0 {
		t.Errorf("the old owner has detached %d", a.Stats.Detached)
	}
	_ = first.cmd.Wait()
	eventually(t, "the command goes on", func() bool {
		return counted(t, second.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text) > n
	})
	second.do(hostCall{Do: "destroy", Session: "s"})
	if left := containers(t, h, order.Instance); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// BenchmarkDialed compares a command by the ways to a supervisor: the attached streams, the control socket, and TLS over a Unix socket and
// over the loopback. They alternate, so that whatever else the machine does concerns them all. Figures are medians.
func BenchmarkDialed(b *testing.B) {
	h := sandboxtest.Engine(b)
	m, config := h.Manager(b)
	streams := config.Spec
	streams.Runtime = "runc" // named, so without a control socket
	sides := []struct {
		name    string
		session *sandbox.Session
		took    []time.Duration
	}{
		{name: "attached", session: get(b, m, "streams", streams)},
		{name: "control", session: get(b, m, "warm", config.Spec)},
	}
	for name, tcp := range map[string]bool{"tls-unix": false, "tls-tcp": true} {
		m, config := h.Manager(b, h.Dialed(b, tcp).Adjust)
		sides = append(sides, sides[0])
		sides[len(sides)-1].name, sides[len(sides)-1].session = name, get(b, m, "s", config.Spec)
	}
	for b.Loop() {
		for i := range sides {
			began := time.Now()
			if err := execHello(b.Context(), sides[i].session); err != nil {
				b.Fatal(err)
			}
			sides[i].took = append(sides[i].took, time.Since(began))
		}
	}
	for _, s := range sides {
		slices.Sort(s.took)
		b.ReportMetric(float64(s.took[len(s.took)/2].Microseconds()), s.name+"-µs")
	}
}
