package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// aRecord is one that a host accepts.
func aRecord() container.Record {
	wanted := spec.Spec{Image: "x"}.WithDefaults()
	return container.Record{
		Version: 2, Key: spec.NewKey(), Host: "0123abcd", Owner: "0123abcd", Epoch: 4, Container: "c1", Session: "s", Sandbox: "default",
		Hash: wanted.Hash("digest"), Spec: wanted, Timeout: wanted.Timeout, Born: time.Now(), Lease: time.Minute,
		Peer: uint32(os.Getuid()), Secret: bytes.Repeat([]byte{7}, frame.SecretSize),
	}
}

// controlOf is the folder of a container's control socket.
func controlOf(m *Manager, r container.Record) string {
	return container.ControlFolderOf(m.here.Run, r.Host, r.Key)
}

// bareDriver has one container that can be removed.
type bareDriver struct {
	driver.Driver
	owned []driver.Owned

	mu      sync.Mutex
	removed []string
}

func (d *bareDriver) Binds() bool { return true }

func (d *bareDriver) Ping(context.Context) error { return nil }

func (d *bareDriver) List(context.Context, string) ([]driver.Owned, error) { return d.owned, nil }

func (d *bareDriver) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed = append(d.removed, id)
	return nil
}

// supervisorSide is the supervisor's part in an adoption.
type supervisorSide struct {
	conn net.Conn
	in   *frame.Reader
	out  *frame.Writer
}

func (s supervisorSide) next() frame.AdoptBody {
	var b frame.AdoptBody
	if f, err := s.in.Next(); err == nil {
		_ = frame.Decode(f.Payload, &b)
	}
	return b
}

func (s supervisorSide) adopt(b frame.AdoptBody) {
	_ = s.out.Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(b)})
}

// prove is the honest answer.
func (s supervisorSide) prove(secret []byte) {
	asked := s.next()
	mine := frame.AdoptBody{Challenge: bytes.Repeat([]byte{9}, frame.SecretSize), Epoch: 4}
	mine.Proof = frame.SupervisorSide.Prove(secret, frame.Exchange{Host: asked, Supervisor: mine})
	s.adopt(mine)
	s.next()
	_, _ = s.in.Next() // Kept
}

// keptID is the id of that question.
const keptID = 1<<31 - 1

// list answers the question for the background commands.
func (s supervisorSide) list(entries ...frame.KeptEntry) {
	for _, e := range entries {
		_ = s.out.Send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: keptID, Payload: append(frame.Encode(e), '\n')})
	}
	_ = s.out.Send(frame.Frame{Type: frame.Reply, ID: keptID, Payload: []byte("{}")})
}

func (s supervisorSide) untilHungUp() { _, _ = io.Copy(io.Discard, s.conn) }

// adoptable is a manager with the record of a container whose control socket is there.
func adoptable(t *testing.T) (*Manager, *bareDriver, container.Record) {
	t.Helper()
	d := &bareDriver{}
	m, err := New(Config{
		Driver: d, Instance: "i", WorkspaceRoot: t.TempDir(), Supervisor: "adopt_test.go", Lease: time.Minute,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := aRecord()
	r.Hash = r.Spec.Hash(m.here.Digest)
	d.owned = []driver.Owned{{ID: r.Container, Labels: map[string]string{driver.LabelInstance: "i", driver.LabelKey: r.Key, driver.LabelHost: r.Host}}}
	if err := os.Mkdir(controlOf(m, r), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(m.here.Run); err != nil {
		t.Fatal(err)
	}
	return m, d, r
}

// visit connects to a control socket once it is there, and acts.
func visit(t *testing.T, m *Manager, r container.Record, act func(s supervisorSide)) {
	folder, err := os.Open(controlOf(m, r)) // a socket's path has to be short
	if err != nil {
		t.Error(err)
		return
	}
	defer folder.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), path.Base(container.ControlPath))
	var conn net.Conn
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var err error
		if conn, err = net.Dial("unix", path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("the control socket never opened: %v", err)
			return
		}
	}
	defer conn.Close()
	act(supervisorSide{conn, frame.NewReader(conn, frame.SupervisorSide), frame.NewWriter(conn)})
}

// A peer that lies at the control socket is refused, and the supervisor behind it is still let in.
func TestLiarsAtTheControlSocket(t *testing.T) {
	entry := frame.KeptEntry{Request: 5, Process: 2, PID: 7, Script: []byte("sleep 9"), Started: time.Now().UnixNano()}
	for name, lie := range map[string]func(s supervisorSide, r container.Record){
		"hangs up":     func(supervisorSide, container.Record) {},
		"says nothing": func(s supervisorSide, _ container.Record) { s.untilHungUp() },
		"garbage":      func(s supervisorSide, _ container.Record) { _, _ = s.conn.Write(bytes.Repeat([]byte{0xff}, 1<<16)) },
		"no proof":     func(s supervisorSide, _ container.Record) { s.next(); s.adopt(frame.AdoptBody{}); s.untilHungUp() },
		"a long answer": func(s supervisorSide, _ container.Record) {
			_, _ = s.conn.Write([]byte{0, 4, 0, 0, 31, 0, 0, 0, 0, 0, 0, 0})
			s.untilHungUp()
		},
		"a wrong secret": func(s supervisorSide, _ container.Record) {
			s.prove(bytes.Repeat([]byte{8}, frame.SecretSize))
			s.untilHungUp()
		},
		"the question thrown back": func(s supervisorSide, r container.Record) {
			asked := s.next()
			s.adopt(frame.AdoptBody{Challenge: asked.Challenge, Proof: asked.Challenge})
			s.untilHungUp()
		},
		"the host's own proof": func(s supervisorSide, r container.Record) {
			asked := s.next()
			s.adopt(frame.AdoptBody{Challenge: asked.Challenge, Epoch: asked.Epoch, Proof: frame.HostSide.Prove(r.Secret, frame.Exchange{Host: asked, Supervisor: asked})})
			s.untilHungUp()
		},
		"welcome instead": func(s supervisorSide, _ container.Record) {
			s.next()
			_ = s.out.Send(frame.Frame{Type: frame.Welcome, Payload: []byte("{}")})
			s.untilHungUp()
		},
		"endless list": func(s supervisorSide, r container.Record) {
			s.prove(r.Secret)
			for s.out.Send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: keptID, Payload: make([]byte, frame.MaxData)}) == nil {
			}
		},
		"one command twice": func(s supervisorSide, r container.Record) { s.prove(r.Secret); s.list(entry, entry); s.untilHungUp() },
		"a result before the list": func(s supervisorSide, r container.Record) {
			s.prove(r.Secret)
			_ = s.out.Send(frame.Frame{Type: frame.Exit, ID: 5, Payload: frame.Encode(frame.ExitBody{})})
			s.untilHungUp()
		},
		"a connection before the list": func(s supervisorSide, r container.Record) {
			s.prove(r.Secret)
			_ = s.out.Send(frame.Frame{Type: frame.Connect, ID: frame.ConnectionID(1), Payload: []byte(`{"kind":"proxy"}`)})
			s.untilHungUp()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			m, d, r := adoptable(t)
			var visitors sync.WaitGroup
			lied := make(chan struct{})
			visitors.Go(func() { defer close(lied); visit(t, m, r, func(s supervisorSide) { lie(s, r) }) })
			visitors.Go(func() {
				<-lied
				visit(t, m, r, func(s supervisorSide) { s.prove(r.Secret); s.list(entry); s.untilHungUp() })
			})
			if err := m.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := m.Stats(); st.Adopted != 1 || len(d.removed) != 0 {
				t.Fatalf("stats %+v, removed %v", st, d.removed)
			}
			s, err := m.Get(t.Context(), "s", "default", r.Spec)
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.Processes(t.Context())
			if err != nil || len(all) != 1 || all[0].ID != "2" || all[0].PID != 7 || all[0].Script != "sleep 9" || !all[0].Running {
				t.Errorf("processes %+v (%v)", all, err)
			}
			if err := m.Destroy(t.Context(), "s"); err != nil || len(d.removed) != 1 {
				t.Errorf("removed %v (%v)", d.removed, err)
			}
			visitors.Wait()
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(filepath.Join(m.here.Run, "[blh]*-*")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A message that an adopted supervisor may not send ends it, as any other's.
func TestAdoptedSupervisorIsStillWatched(t *testing.T) {
	entry := frame.KeptEntry{Request: 5, Process: 1, PID: 7, Script: []byte("sleep 9"), Started: 1}
	for name, f := range map[string]frame.Frame{
		"adopt again":      {Type: frame.Adopt, Payload: []byte("{}")},
		"result on nobody": {Type: frame.Exit, ID: 6, Payload: frame.Encode(frame.ExitBody{})},
		"started again":    {Type: frame.Started, ID: 5, Payload: frame.Encode(frame.StartedBody{PID: 8})},
		"output unasked":   {Type: frame.Data, Stream: frame.Out, ID: 5, Payload: []byte("x")},
		"impossible code":  {Type: frame.Exit, ID: 5, Payload: frame.Encode(frame.ExitBody{ExitCode: 300})},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			m, d, r := adoptable(t)
			var visitor sync.WaitGroup
			visitor.Go(func() {
				visit(t, m, r, func(s supervisorSide) {
					s.prove(r.Secret)
					s.list(entry)
					_ = s.out.Send(f)
					s.untilHungUp()
				})
			})
			if err := m.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			visitor.Wait()
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
			if len(d.removed) == 0 { // the reconciliation may see it as a leftover at the same time
				t.Error("the container was not removed")
			}
		})
	}
}

// Nobody comes to the control socket, or only commands do: the container is a leftover.
func TestNobodyAtTheControlSocket(t *testing.T) {
	for name, change := range map[string]func(m *Manager, d *bareDriver, r *container.Record){
		"container is gone": func(_ *Manager, d *bareDriver, _ *container.Record) { d.owned = nil },
		"another's key": func(_ *Manager, d *bareDriver, _ *container.Record) {
			d.owned[0].Labels[driver.LabelKey] = spec.NewKey()
		},
		"control socket is gone": func(m *Manager, _ *bareDriver, r *container.Record) { os.Remove(controlOf(m, *r)) },
		"control socket is a link": func(m *Manager, _ *bareDriver, r *container.Record) {
			os.Remove(controlOf(m, *r))
			_ = os.Symlink("/tmp", controlOf(m, *r))
		},
		"older program": func(m *Manager, _ *bareDriver, r *container.Record) {
			r.Hash = r.Spec.Hash("older")
			_ = r.Write(m.here.Run)
		},
		"half a record": func(m *Manager, _ *bareDriver, r *container.Record) {
			_ = os.WriteFile(container.RecordPath(m.here.Run, r.Key), []byte(`{"ver`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			m, d, r := adoptable(t)
			change(m, d, &r)
			there := len(d.owned)
			if err := m.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := m.Stats(); st.Adopted != 0 || len(d.removed) != there {
				t.Errorf("stats %+v, removed %v", st, d.removed)
			}
			if left, _ := filepath.Glob(filepath.Join(m.here.Run, "[bl]*-*")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if err := m.DestroyAll(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := m.Get(t.Context(), "s", "default", r.Spec); !errors.Is(err, machine.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The user of commands is not the supervisor's, and gets no question at all.
func TestAnotherUserAtTheControlSocket(t *testing.T) {
	m, _, r := adoptable(t)
	r.Peer++
	if err := r.Write(m.here.Run); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var visitor sync.WaitGroup
	visitor.Go(func() {
		visit(t, m, r, func(s supervisorSide) {
			defer cancel()
			if _, err := s.in.Next(); err == nil {
				t.Error("another user was asked")
			}
		})
	})
	if err := m.Reconcile(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	visitor.Wait()
	if st := m.Stats(); st.Adopted != 0 {
		t.Errorf("stats %+v", st)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Error(err)
	}
}
