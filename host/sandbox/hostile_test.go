package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// fakeDriver makes containers whose first process is a function of the test's.
type fakeDriver struct {
	play func(c *fakeContainer)

	mu      sync.Mutex
	made    []*fakeContainer
	removed int
}

type fakeContainer struct {
	nonce string
	host  net.Conn
	conn  net.Conn // the container's end
	in    *frame.Reader
	out   *frame.Writer
	ended chan struct{}
}

func (d *fakeDriver) Ping(context.Context) error { return nil }

func (d *fakeDriver) Capabilities(context.Context) (driver.Capabilities, error) {
	return driver.Capabilities{}, nil
}

func (d *fakeDriver) Binds() bool { return true }

func (d *fakeDriver) Create(_ context.Context, c driver.Container) (string, error) {
	host, inside := net.Pipe()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, &fakeContainer{
		nonce: c.Entrypoint[1], host: host, conn: inside, ended: make(chan struct{}),
		in: frame.NewReader(inside, frame.SupervisorSide), out: frame.NewWriter(inside),
	})
	return c.Key, nil
}

func (d *fakeDriver) last() *fakeContainer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[len(d.made)-1]
}

func (d *fakeDriver) Attach(context.Context, string, io.Writer) (driver.Stream, error) {
	return d.last().host, nil
}

func (d *fakeDriver) Start(context.Context, string) error {
	c := d.last()
	go func() {
		defer close(c.ended)
		d.play(c)
	}()
	return nil
}

func (d *fakeDriver) Remove(context.Context, string) error {
	c := d.last()
	c.conn.Close()
	<-c.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed++
	return nil
}

func (d *fakeDriver) List(context.Context, string) ([]driver.Owned, error) { return nil, nil }

// welcome is what a good supervisor answers.
func (c *fakeContainer) welcome() frame.WelcomeBody {
	return frame.WelcomeBody{
		Version: frame.Version, PID: 1, Nonce: c.nonce, NoNewPrivs: true, Seccomp: true,
		CapEff: 0xe0, CapBnd: 0xe0, RootReadOnly: true, WorkspaceMount: true, Interfaces: []string{"lo"},
	}
}

// greet plays the good supervisor up to the first command, and returns that command's id.
func (c *fakeContainer) greet() uint32 { return c.await(frame.Exec) }

// await plays the good supervisor up to the first request of that type, and returns its id.
func (c *fakeContainer) await(first frame.Type) uint32 {
	var hello frame.HelloBody
	f, err := c.in.Next()
	if err != nil || frame.Decode(f.Payload, &hello) != nil {
		return 0
	}
	welcome := c.welcome()
	welcome.Proxy = hello.Proxy
	_ = c.out.Send(frame.Frame{Type: frame.Welcome, Payload: frame.Encode(welcome)})
	for {
		f, err := c.in.Next()
		if err != nil {
			return 0
		}
		if f.Type == first {
			return f.ID
		}
	}
}

// send writes frames until the host hangs up.
func (c *fakeContainer) send(frames ...frame.Frame) bool { return c.out.Send(frames...) == nil }

// fakeManager returns a Manager on the driver, with a supervisor file that nobody runs.
func fakeManager(t testing.TB, d *fakeDriver) *sandbox.Manager {
	t.Helper()
	m, err := sandbox.New(sandbox.Config{
		Driver: d, Instance: "fake", WorkspaceRoot: t.TempDir(), Supervisor: "hostile_test.go",
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A message of a hostile supervisor ends the link (package link), and that costs the container, once.
func TestHostileSupervisorCostsTheContainer(t *testing.T) {
	for name, attack := range map[string]func(c *fakeContainer, id uint32){
		"garbage":  func(c *fakeContainer, _ uint32) { _, _ = c.conn.Write(bytes.Repeat([]byte{0xff}, 1<<20)) },
		"hangs up": func(*fakeContainer, uint32) {},
		"impossible code": func(c *fakeContainer, id uint32) {
			c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(frame.ExitBody{ExitCode: 256})})
		},
		"connection where there is no proxy": func(c *fakeContainer, _ uint32) {
			c.send(frame.Frame{Type: frame.Connect, ID: frame.ConnectionID(1), Payload: []byte(`{"kind":"proxy"}`)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			d := &fakeDriver{play: func(c *fakeContainer) {
				defer c.conn.Close()
				if id := c.greet(); id != 0 {
					attack(c, id)
				}
			}}
			m := fakeManager(t, d)
			s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Exec(t.Context(), machine.Command{Script: "true"}); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
			if d.removed != 1 {
				t.Errorf("container removed %d times", d.removed)
			}
		})
	}
}

// The proxy's connections end with the link that they are in.
func TestHostileProxyCostsTheContainer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := &fakeDriver{play: func(c *fakeContainer) {
		defer c.conn.Close()
		if c.greet() == 0 {
			return
		}
		connect := frame.Frame{Type: frame.Connect, ID: frame.ConnectionID(1), Payload: []byte(`{"kind":"proxy"}`)}
		c.send(connect, connect)
		_, _ = io.Copy(io.Discard, c.conn) // until the host hangs up
	}}
	m := fakeManager(t, d)
	s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x", Network: "allowlist", Allowlist: []string{"example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Exec(t.Context(), machine.Command{Script: "true"}); !errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if err := m.DestroyAll(t.Context()); err != nil || d.removed != 1 {
		t.Errorf("removed %d times (%v)", d.removed, err)
	}
}

// A command that does not fit the line costs only itself.
func TestTooLongACommandCostsOnlyItself(t *testing.T) {
	d := &fakeDriver{play: func(c *fakeContainer) {
		id := c.greet()
		c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(frame.ExitBody{ExitCode: 7})})
		for { // a breach by the host would end it
			if _, err := c.in.Next(); err != nil {
				c.conn.Close()
				return
			}
		}
	}}
	m := fakeManager(t, d)
	s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
	if err != nil {
		t.Fatal(err)
	}
	long := machine.Command{Script: "true", Env: map[string]string{"LONG": strings.Repeat("x", frame.MaxPayload)}}
	if _, err := s.Exec(t.Context(), long); err == nil || errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("to its end: %v", err)
	}
	if _, err := s.Start(t.Context(), long); err == nil || errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("in the background: %v", err)
	}
	if _, err := s.Spawn(t.Context(), long); err == nil || errors.Is(err, machine.ErrUnavailable) {
		t.Errorf("live: %v", err)
	}
	if r, err := s.Exec(t.Context(), machine.Command{Script: "true"}); err != nil || r.ExitCode != 7 || len(d.made) != 1 {
		t.Errorf("the next command: %+v (%v), in container %d", r, err, len(d.made))
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestImpostorIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*frame.WelcomeBody){
		"version":       func(w *frame.WelcomeBody) { w.Version++ },
		"pid":           func(w *frame.WelcomeBody) { w.PID = 7 },
		"proxy":         func(w *frame.WelcomeBody) { w.Proxy = true },
		"nonce":         func(w *frame.WelcomeBody) { w.Nonce = "other" },
		"privileges":    func(w *frame.WelcomeBody) { w.NoNewPrivs = false },
		"capability":    func(w *frame.WelcomeBody) { w.CapEff |= 1 << 21 },
		"bounding set":  func(w *frame.WelcomeBody) { w.CapBnd |= 1 << 21 },
		"writable root": func(w *frame.WelcomeBody) { w.RootReadOnly = false },
		"no workspace":  func(w *frame.WelcomeBody) { w.WorkspaceMount = false },
		"network":       func(w *frame.WelcomeBody) { w.Interfaces = []string{"lo", "eth0"} },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			d := &fakeDriver{play: func(c *fakeContainer) {
				defer c.conn.Close()
				_, _ = c.in.Next()
				w := c.welcome()
				spoil(&w)
				c.send(frame.Frame{Type: frame.Welcome, Payload: frame.Encode(w)})
			}}
			m := fakeManager(t, d)
			if _, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"}); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if err := m.DestroyAll(t.Context()); err != nil || d.removed != 1 {
				t.Errorf("removed %d times (%v)", d.removed, err)
			}
		})
	}
}

// A supervisor that no longer answers is the last rung's case.
func TestSilentSupervisorCostsTheContainer(t *testing.T) {
	for _, how := range []string{"timeout", "cancel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &fakeDriver{play: func(c *fakeContainer) {
					c.greet()
					_, _ = io.Copy(io.Discard, c.conn)
				}}
				m := fakeManager(t, d)
				s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if how == "cancel" {
					time.AfterFunc(time.Second, cancel)
				}
				began := time.Now()
				r, err := s.Exec(ctx, machine.Command{Script: "true", Timeout: 20 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if r.Kill == nil || r.Kill.Rung != "container" || r.Kill.Survivors != 0 || d.removed != 1 {
					t.Errorf("result %+v, kill %+v, removed %d", r, r.Kill, d.removed)
				}
				if r.TimedOut != (how == "timeout") || r.Canceled != (how == "cancel") {
					t.Errorf("timed out %v, canceled %v", r.TimedOut, r.Canceled)
				}
				if took := time.Since(began); took > 30*time.Second || how == "cancel" && took > 10*time.Second {
					t.Errorf("took %v", took)
				}
				if err := m.DestroyAll(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestSurvivorsCostTheContainer(t *testing.T) {
	d := &fakeDriver{play: func(c *fakeContainer) {
		id := c.greet()
		c.send(frame.Frame{Type: frame.Exit, ID: id, Payload: frame.Encode(frame.ExitBody{
			ExitCode: -1, Signal: 9, TimedOut: true, Kill: &frame.KillBody{Rung: "uid", Survivors: 2},
		})})
		_, _ = io.Copy(io.Discard, c.conn)
	}}
	m := fakeManager(t, d)
	s, err := m.Get(t.Context(), "s", "default", spec.Spec{Image: "x"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), machine.Command{Script: "true"})
	if err != nil || !r.TimedOut || r.Kill.Rung != "container" || r.Kill.Survivors != 0 || d.removed != 1 {
		t.Errorf("result %+v, kill %+v (%v)", r, r.Kill, err)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
}
