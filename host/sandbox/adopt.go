package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	// adoptTimeout bounds the wait for a supervisor whose host is gone: it first ends what that one waited for, which may
	// take half of it, then tries the control socket once a second, and an attempt may fail on a busy machine.
	adoptTimeout = 15 * time.Second
	// vanishEvery is how often the engine is asked whether the container is there at all.
	vanishEvery = 500 * time.Millisecond
	// maxEntries counts the image's own process as well.
	maxEntries = maxProcesses + 1
)

// adoptAll takes over the containers that an earlier process of this instance has left with commands in the background.
// One that is wrong in any way is left, and so removed.
func (m *Manager) adoptAll(ctx context.Context, owned []driver.Owned, alive map[string]bool) {
	keys, err := recordKeys(m.run)
	if err != nil {
		m.log.Warn("cannot list records", "error", err)
	}
	keys = slices.DeleteFunc(keys, m.holds)
	_ = each(keys, func(key string) error {
		r, err := readRecord(m.run, key)
		if err == nil && alive[r.Host] {
			return nil
		}
		if err == nil {
			err = m.adopt(ctx, r, owned)
		}
		switch {
		case errors.Is(err, errNotThere):
			m.log.Info("a sandbox with background processes ended while the host was down", "session", r.Session, "sandbox", r.Sandbox)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			m.log.Warn("a sandbox with background processes is lost", "session", r.Session, "sandbox", r.Sandbox, "error", err)
		}
		return nil
	})
}

var errNotThere = errors.New("the container is gone")

// adopt makes the container of a record the session's again.
func (m *Manager) adopt(ctx context.Context, r record, owned []driver.Owned) error {
	var err error
	if r.Spec, err = m.wanted(ctx, r, owned); err != nil {
		return err
	}
	t := m.newOwnership(r.Key)
	t.lease, t.secret, t.peer, t.recorded = r.Lease, r.Secret, r.Peer, true
	t.control = &controlSocket{folder: m.controlFolderOf(r.Host, r.Key)}
	b, err := m.reach(ctx, r, t)
	if err != nil {
		t.control.shut()
		t.release() // the rest is a leftover
		return err
	}
	if !m.enterAdopted(r, b) {
		b.link.Close(errEnded)
		<-b.gone
		return errors.New("the session has another container already")
	}
	m.log.Info("adopted a sandbox with background processes", "session", r.Session, "sandbox", r.Sandbox, "container", b.id,
		"processes", len(b.list()))
	return nil
}

// wanted returns the specification of a record's container, which must be there and still be what its session would get.
func (m *Manager) wanted(ctx context.Context, r record, owned []driver.Owned) (spec.Spec, error) {
	at := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.ID == r.Container && o.Labels[driver.LabelKey] == r.Key })
	if at < 0 {
		return r.Spec, errNotThere
	}
	want := r.Spec
	if m.config.Current != nil { // it also knows what a record does not tell
		current, ok := m.config.Current(r.Sandbox)
		if !ok {
			return r.Spec, fmt.Errorf("there is no sandbox %q any more", r.Sandbox)
		}
		want = current.WithDefaults()
	}
	if want.Hash(m.digest) != r.Hash || r.Spec.Hash(m.digest) != r.Hash {
		return r.Spec, errors.New("it was made by another configuration, or an older program")
	}
	if err := want.Check(); err != nil {
		return r.Spec, err
	}
	// The rules about the host's folders may have changed, and are those of now.
	mounted := mountSet{m: m, spec: want}
	defer mounted.release()
	return want, mounted.holdSources(ctx)
}

// enterAdopted makes the session of an adopted box.
func (m *Manager) enterAdopted(r record, b *box) bool {
	p := newPending()
	p.box = b
	close(p.done)
	s := &Session{m: m, session: r.Session, name: r.Sandbox, spec: r.Spec, hash: r.Hash, used: time.Now(), launch: p}
	s.timeout.Store(int64(r.Spec.Timeout))
	k := key{r.Session, r.Sandbox}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.sessions[k] != nil {
		return false
	}
	m.sessions[k] = s
	m.adopted++
	return true
}

// reach opens the control socket again and waits for the supervisor.
func (m *Manager) reach(ctx context.Context, r record, t *ownership) (*box, error) {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errors.New("its supervisor does not come back"))
	defer cancel()
	if info, err := os.Lstat(t.control.folder); err != nil || !info.IsDir() {
		return nil, errors.New("its control socket is gone")
	}
	reopened, err := reopenControlSocket(t.control.folder)
	if err != nil {
		return nil, err
	}
	t.control = reopened
	defer t.control.shut()
	watching := make(chan struct{})
	go func() { defer close(watching); m.awaitEnd(ctx, r.Container, gone) }()
	defer func() { cancel(); <-watching }()
	defer context.AfterFunc(ctx, t.control.shut)()
	for {
		conn, err := t.control.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		b, err := m.welcomeBack(conn, r, t)
		if err == nil {
			return b, nil
		}
		conn.Close()
		if !errors.Is(err, link.ErrStranger) {
			m.log.Debug("refused a connection at the control socket", "container", r.Container, "error", err)
		}
	}
}

// awaitEnd cancels the wait for a container that is not there any more.
func (m *Manager) awaitEnd(ctx context.Context, id string, gone context.CancelCauseFunc) {
	clock := time.NewTicker(vanishEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		owned, err := m.config.Driver.List(ctx, m.config.Instance)
		if err == nil && !slices.ContainsFunc(owned, func(o driver.Owned) bool { return o.ID == id }) {
			gone(errNotThere)
			return
		}
	}
}

// welcomeBack has both ends prove who they are. Commands inside have another user than the supervisor, so most of their
// attempts end at the first look.
func (m *Manager) welcomeBack(conn net.Conn, r record, t *ownership) (*box, error) {
	if uid, err := peerUID(conn); err != nil || uid != r.Peer {
		return nil, errors.Join(link.ErrStranger, err)
	}
	reader, entries, err := link.Adopt(conn, r.Secret, maxEntries)
	if err != nil {
		return nil, err
	}
	return m.rebuild(conn, reader, r, t, entries), nil
}

// rebuild makes a box of a supervisor that has proved itself.
func (m *Manager) rebuild(conn net.Conn, reader *frame.Reader, r record, t *ownership, entries []frame.KeptEntry) *box {
	o := launchSpec{
		reaper: m.reaper, ownership: t, workspace: m.workspaces.Path(r.Session),
		container: driver.Container{Image: r.Spec.Image, Labels: map[string]string{driver.LabelSession: r.Session}},
	}
	if r.Spec.Network == spec.Allowlist {
		m.offerProxy(&o, r.Spec, r.Host)
	}
	if len(r.Spec.Bridges) > 0 {
		m.serveBridges(&o, r.Spec)
	}
	b := newBox(m.config.Driver, m.log, r.Container, o)
	b.born = r.Born
	b.connect(conn, o)
	for _, e := range entries {
		b.resume(e)
	}
	go b.link.Serve(reader)
	hold := m.config.Holds.Enter(r.Session)
	_, release, err := m.config.Quota.Reserve(r.Session, r.Spec.DiskBytes)
	if err != nil {
		release = func() {} // it is there, whatever the limits are by now
	}
	b.onceRemoved(func() { hold(); release() })
	go b.watch()
	return b
}

// resume enters a background process as it was.
func (b *box) resume(e frame.KeptEntry) {
	p := &process{number: e.Process, call: b.link.Resume(e)}
	p.info = machine.Process{
		ID: p.id(), PID: e.PID, Script: string(e.Script), Started: time.Unix(0, e.Started), Running: true,
	}
	b.processes[p.info.ID] = p
	b.started = max(b.started, e.Process)
}
