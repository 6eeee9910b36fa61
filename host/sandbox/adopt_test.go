package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// aRecord is one that parseRecord accepts.
func aRecord() record {
	wanted := spec.Spec{Image: "x"}.WithDefaults()
	return record{
		Version: recordVersion, Key: spec.NewKey(), Host: "0123abcd", Container: "c1", Session: "s", Sandbox: "default",
		Hash: wanted.Hash("digest"), Spec: wanted, Timeout: wanted.Timeout, Born: time.Now(), Lease: time.Minute,
		Peer: uint32(os.Getuid()), Secret: bytes.Repeat([]byte{7}, frame.SecretSize),
	}
}

func TestRecordIsPrivateAndComesBack(t *testing.T) {
	run := t.TempDir()
	r := aRecord()
	if err := r.write(run); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(recordPath(run, r.Key))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	got, err := readRecord(run, r.Key)
	if err != nil || got.Spec.Timeout != r.Timeout || got.Spec.Hash("digest") != r.Hash || !bytes.Equal(got.Secret, r.Secret) || !got.Born.Equal(r.Born) {
		t.Errorf("came back as %+v (%v)", got, err)
	}
	if keys, err := recordKeys(run); err != nil || len(keys) != 1 || keys[0] != r.Key {
		t.Errorf("keys %v (%v)", keys, err)
	}
	other := spec.NewKey()
	if err := os.Rename(recordPath(run, r.Key), recordPath(run, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(run, other); err == nil {
		t.Error("a record under another's name is taken")
	}
}

func TestRecordRefusals(t *testing.T) {
	for name, spoil := range map[string]func(*record){
		"version":   func(r *record) { r.Version++ },
		"key":       func(r *record) { r.Key = "../../../../../../../../../../x" },
		"short key": func(r *record) { r.Key = "ab" },
		"host":      func(r *record) { r.Host = "" },
		"container": func(r *record) { r.Container = "../containers/other" },
		"lease":     func(r *record) { r.Lease = -1 },
		"secret":    func(r *record) { r.Secret = r.Secret[1:] },
		"no date":   func(r *record) { r.Born = time.Time{} },
		"name":      func(r *record) { r.Session = strings.Repeat("x", maxName+1) },
	} {
		r := aRecord()
		spoil(&r)
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseRecord(text); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
}

// FuzzRecord: what is accepted is fit to name files and containers, and says the same when it is written again.
func FuzzRecord(f *testing.F) {
	text, err := json.Marshal(aRecord())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(append(text, "{}"...))
	f.Add(bytes.Replace(text, []byte(`"key":"`), []byte(`"key":"/`), 1))
	f.Add([]byte(`{"version":1,"spec":{"Image":"x"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		if !spec.IsKey(r.Key) || strings.ContainsAny(r.Container, "/?") || len(r.Secret) != frame.SecretSize {
			t.Errorf("accepted %+v", r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Skip("a time that JSON cannot say")
		}
		if second, err := parseRecord(again); err != nil || second.Key != r.Key || second.Spec.Hash("") != r.Spec.Hash("") {
			t.Errorf("%s became %s (%v)", text, again, err)
		}
	})
}

// bareDriver has one container that can be removed.
type bareDriver struct {
	driver.Driver
	owned []driver.Owned

	mu      sync.Mutex
	removed []string
}

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
	mine := bytes.Repeat([]byte{9}, frame.SecretSize)
	s.adopt(frame.AdoptBody{Challenge: mine, Proof: frame.SupervisorSide.Prove(secret, asked.Challenge, mine)})
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
func adoptable(t *testing.T) (*Manager, *bareDriver, record) {
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
	r.Hash = r.Spec.Hash(m.digest)
	d.owned = []driver.Owned{{ID: r.Container, Labels: map[string]string{driver.LabelInstance: "i", driver.LabelKey: r.Key, driver.LabelHost: r.Host}}}
	if err := os.Mkdir(m.controlFolderOf(r.Host, r.Key), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.write(m.run); err != nil {
		t.Fatal(err)
	}
	return m, d, r
}

// visit connects to a control socket once it is there, and acts.
func visit(t *testing.T, m *Manager, r record, act func(s supervisorSide)) {
	folder, err := os.Open(m.controlFolderOf(r.Host, r.Key)) // a socket's path has to be short
	if err != nil {
		t.Error(err)
		return
	}
	defer folder.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), controlName)
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
func TestLiarsAtTheLane(t *testing.T) {
	entry := frame.KeptEntry{Request: 5, Process: 2, PID: 7, Script: []byte("sleep 9"), Started: time.Now().UnixNano()}
	for name, lie := range map[string]func(s supervisorSide, r record){
		"hangs up":     func(supervisorSide, record) {},
		"says nothing": func(s supervisorSide, _ record) { s.untilHungUp() },
		"garbage":      func(s supervisorSide, _ record) { _, _ = s.conn.Write(bytes.Repeat([]byte{0xff}, 1<<16)) },
		"no proof":     func(s supervisorSide, _ record) { s.next(); s.adopt(frame.AdoptBody{}); s.untilHungUp() },
		"a long answer": func(s supervisorSide, _ record) {
			_, _ = s.conn.Write([]byte{0, 4, 0, 0, 31, 0, 0, 0, 0, 0, 0, 0})
			s.untilHungUp()
		},
		"a wrong secret": func(s supervisorSide, _ record) {
			s.prove(bytes.Repeat([]byte{8}, frame.SecretSize))
			s.untilHungUp()
		},
		"the question thrown back": func(s supervisorSide, r record) {
			asked := s.next()
			s.adopt(frame.AdoptBody{Challenge: asked.Challenge, Proof: asked.Challenge})
			s.untilHungUp()
		},
		"the host's own proof": func(s supervisorSide, r record) {
			asked := s.next()
			s.adopt(frame.AdoptBody{Challenge: asked.Challenge, Proof: frame.HostSide.Prove(r.Secret, asked.Challenge, asked.Challenge)})
			s.untilHungUp()
		},
		"welcome instead": func(s supervisorSide, _ record) {
			s.next()
			_ = s.out.Send(frame.Frame{Type: frame.Welcome, Payload: []byte("{}")})
			s.untilHungUp()
		},
		"endless list": func(s supervisorSide, r record) {
			s.prove(r.Secret)
			for s.out.Send(frame.Frame{Type: frame.Data, Stream: frame.Out, ID: keptID, Payload: make([]byte, frame.MaxData)}) == nil {
			}
		},
		"one command twice": func(s supervisorSide, r record) { s.prove(r.Secret); s.list(entry, entry); s.untilHungUp() },
		"a verdict before the list": func(s supervisorSide, r record) {
			s.prove(r.Secret)
			_ = s.out.Send(frame.Frame{Type: frame.Exit, ID: 5, Payload: frame.Encode(frame.ExitBody{})})
			s.untilHungUp()
		},
		"a connection before the list": func(s supervisorSide, r record) {
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
			if left, _ := filepath.Glob(filepath.Join(m.run, "[blh]*-*")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A message that an adopted supervisor may not send ends it, as any other's.
func TestAdoptedSupervisorIsStillWatched(t *testing.T) {
	entry := frame.KeptEntry{Request: 5, Process: 1, PID: 7, Script: []byte("sleep 9"), Started: 1}
	for name, f := range map[string]frame.Frame{
		"adopt again":       {Type: frame.Adopt, Payload: []byte("{}")},
		"verdict on nobody": {Type: frame.Exit, ID: 6, Payload: frame.Encode(frame.ExitBody{})},
		"started again":     {Type: frame.Started, ID: 5, Payload: frame.Encode(frame.StartedBody{PID: 8})},
		"output unasked":    {Type: frame.Data, Stream: frame.Out, ID: 5, Payload: []byte("x")},
		"impossible code":   {Type: frame.Exit, ID: 5, Payload: frame.Encode(frame.ExitBody{ExitCode: 300})},
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
func TestNobodyAtTheLane(t *testing.T) {
	for name, change := range map[string]func(m *Manager, d *bareDriver, r *record){
		"container is gone":      func(_ *Manager, d *bareDriver, _ *record) { d.owned = nil },
		"another's key":          func(_ *Manager, d *bareDriver, _ *record) { d.owned[0].Labels[driver.LabelKey] = spec.NewKey() },
		"control socket is gone": func(m *Manager, _ *bareDriver, r *record) { os.Remove(m.controlFolderOf(r.Host, r.Key)) },
		"control socket is a link": func(m *Manager, _ *bareDriver, r *record) {
			os.Remove(m.controlFolderOf(r.Host, r.Key))
			_ = os.Symlink("/tmp", m.controlFolderOf(r.Host, r.Key))
		},
		"older program": func(m *Manager, _ *bareDriver, r *record) { r.Hash = r.Spec.Hash("older"); _ = r.write(m.run) },
		"half a record": func(m *Manager, _ *bareDriver, r *record) {
			_ = os.WriteFile(recordPath(m.run, r.Key), []byte(`{"ver`), 0o600)
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
			if left, _ := filepath.Glob(filepath.Join(m.run, "[bl]*-*")); len(left) != 0 {
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
func TestAnotherUserAtTheLane(t *testing.T) {
	m, _, r := adoptable(t)
	r.Peer++
	if err := r.write(m.run); err != nil {
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
