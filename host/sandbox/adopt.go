package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// adoptTimeout bounds the wait for a supervisor whose host is gone: it first ends what that one waited for.
	adoptTimeout = 10 * time.Second
	// proveTimeout bounds what one connection may take; commands inside connect as well, for all that is known.
	proveTimeout = 3 * time.Second
	// vanishEvery is how often the engine is asked whether the container is there at all.
	vanishEvery = 500 * time.Millisecond
	// maxKept bounds the wire form of the list of background commands.
	maxKept = maxEntries * (2*frame.MaxScript + 1<<10)
	// maxEntries counts the image's own process as well.
	maxEntries = maxProcesses + 1
)

// adoptAll takes over the containers that an earlier process of this instance has left with commands in the background.
// Whatever is wrong with one is a reason to leave it, and so to remove it.
func (m *Manager) adoptAll(ctx context.Context, owned []Owned, alive map[string]bool) {
	keys, err := recordKeys(m.run)
	if err != nil {
		m.log.Warn("records cannot be listed", "error", err)
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
			m.log.Info("a sandbox with background processes has ended meanwhile", "session", r.Session, "sandbox", r.Sandbox)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			m.log.Warn("a sandbox with background processes is lost", "session", r.Session, "sandbox", r.Sandbox, "error", err)
		}
		return nil
	})
}

var errNotThere = errors.New("the container is gone")

// adopt makes the container of a record the session's again.
func (m *Manager) adopt(ctx context.Context, r record, owned []Owned) error {
	var err error
	if r.Spec, err = m.wanted(ctx, r, owned); err != nil {
		return err
	}
	t := m.newTenure(r.Key)
	t.lease, t.secret, t.peer, t.recorded = r.Lease, r.Secret, r.Peer, true
	t.lane = &lane{folder: m.laneFolder(r.Host, r.Key)}
	b, err := m.reach(ctx, r, t)
	if err != nil {
		t.lane.shut()
		t.release() // the rest is a leftover
		return err
	}
	if !m.enterAdopted(r, b) {
		b.link.close(errEnded)
		<-b.gone
		return errors.New("the session has another container already")
	}
	m.log.Info("a sandbox goes on with its background processes", "session", r.Session, "sandbox", r.Sandbox, "container", b.id,
		"processes", len(b.list()))
	return nil
}

// wanted returns the specification of a record's container, which must be there and still be what its session would get.
func (m *Manager) wanted(ctx context.Context, r record, owned []Owned) (Spec, error) {
	at := slices.IndexFunc(owned, func(o Owned) bool { return o.ID == r.Container && o.Labels[LabelKey] == r.Key })
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
	if want.hash(m.digest) != r.Hash || r.Spec.hash(m.digest) != r.Hash {
		return r.Spec, errors.New("it was made by another configuration, or an older program")
	}
	if err := want.validate(); err != nil {
		return r.Spec, err
	}
	// The rules about the host's folders may have changed, and are those of now.
	mounted := furniture{m: m, spec: want}
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

// reach opens the lane again and waits for the supervisor.
func (m *Manager) reach(ctx context.Context, r record, t *tenure) (*box, error) {
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, errors.New("its supervisor does not come back"))
	defer cancel()
	if info, err := os.Lstat(t.lane.folder); err != nil || !info.IsDir() {
		return nil, errors.New("its lane is gone")
	}
	reopened, err := reopenLane(t.lane.folder)
	if err != nil {
		return nil, err
	}
	t.lane = reopened
	defer t.lane.shut()
	watching := make(chan struct{})
	go func() { defer close(watching); m.awaitEnd(ctx, r.Container, gone) }()
	defer func() { cancel(); <-watching }()
	defer context.AfterFunc(ctx, t.lane.shut)()
	for {
		conn, err := t.lane.listener.Accept()
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
		if !errors.Is(err, errStranger) {
			m.log.Debug("somebody else, or half a supervisor, has connected", "container", r.Container, "error", err)
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
		if err == nil && !slices.ContainsFunc(owned, func(o Owned) bool { return o.ID == id }) {
			gone(errNotThere)
			return
		}
	}
}

var errStranger = errors.New("it is not the supervisor")

// welcomeBack has both ends prove who they are, and asks for the background commands. Commands inside have another user
// than the supervisor, so most of their attempts end at the first look.
func (m *Manager) welcomeBack(conn net.Conn, r record, t *tenure) (*box, error) {
	if uid, err := peerUID(conn); err != nil || uid != r.Peer {
		return nil, errors.Join(errStranger, err)
	}
	if err := conn.SetDeadline(time.Now().Add(proveTimeout)); err != nil {
		return nil, err
	}
	reader, out := frame.NewReader(conn, frame.HostSide), frame.NewWriter(conn)
	if err := prove(reader, out, r.Secret); err != nil {
		return nil, err
	}
	entries, err := askKept(reader, out)
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, err
	}
	return m.rebuild(conn, reader, r, t, entries), nil
}

// prove sends a challenge, checks its answer, and answers the one that comes with it.
func prove(reader *frame.Reader, out *frame.Writer, secret []byte) error {
	challenge := make([]byte, frame.SecretSize)
	rand.Read(challenge) // never fails, says its documentation
	send := func(b frame.AdoptBody) error {
		return out.Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(b)})
	}
	if err := send(frame.AdoptBody{Challenge: challenge}); err != nil {
		return err
	}
	f, err := reader.Next()
	if err != nil {
		return err
	}
	var answer frame.AdoptBody
	if f.Type != frame.Adopt {
		return errStranger
	}
	if err := frame.Decode(f.Payload, &answer); err != nil {
		return err
	}
	if !frame.SupervisorSide.Proven(answer.Proof, secret, challenge, answer.Challenge) {
		return errStranger
	}
	return send(frame.AdoptBody{Proof: frame.HostSide.Prove(secret, challenge, answer.Challenge)})
}

// keptID is the request that asks for the background commands. Its number is free again afterwards, and no command's: they
// have smaller ones.
const keptID = 1<<31 - 1

// askKept asks for the background commands, before any other frame may come.
func askKept(reader *frame.Reader, out *frame.Writer) ([]frame.KeptEntry, error) {
	if err := out.Send(frame.Frame{Type: frame.Kept, ID: keptID}); err != nil {
		return nil, err
	}
	inbox := frame.NewInbox(make(chan struct{}, 1))
	var lines bytes.Buffer
	for {
		f, err := reader.Next()
		switch {
		case err != nil:
			return nil, err
		case f.ID != keptID:
			return nil, fmt.Errorf("%w: frame type %d before the list of commands", frame.ErrProtocol, f.Type)
		case f.Type == frame.Reply:
			return parseKept(&lines)
		case f.Type != frame.Data || f.Stream != frame.Out || lines.Len()+len(f.Payload) > maxKept:
			return nil, fmt.Errorf("%w: frame type %d in the list of commands", frame.ErrProtocol, f.Type)
		}
		if err := inbox.Put(f.Payload); err != nil {
			return nil, err
		}
		p, credit, _ := inbox.Take()
		lines.Write(p)
		if credit == nil {
			continue
		}
		if err := out.Send(frame.Frame{Type: frame.Credit, Stream: frame.Out, ID: keptID, Payload: credit}); err != nil {
			return nil, err
		}
	}
}

// parseKept reads one frame.KeptEntry a line.
func parseKept(lines io.Reader) ([]frame.KeptEntry, error) {
	var entries []frame.KeptEntry
	requests, numbers := map[uint32]bool{}, map[int]bool{}
	d := json.NewDecoder(lines)
	d.DisallowUnknownFields()
	for {
		var e frame.KeptEntry
		err := d.Decode(&e)
		if err == io.EOF {
			return entries, nil
		}
		if err == nil {
			err = checkKept(e)
		}
		if err != nil || requests[e.Request] || numbers[e.Process] || len(entries) >= maxEntries {
			return nil, fmt.Errorf("%w: malformed list of commands: %w", frame.ErrProtocol, errors.Join(err))
		}
		requests[e.Request], numbers[e.Process] = true, true
		entries = append(entries, e)
	}
}

// maxNumber bounds the numbers of background commands; nobody starts as many.
const maxNumber = 1 << 30

func checkKept(e frame.KeptEntry) error {
	switch {
	case e.Request == 0 || e.Request >= keptID:
		return fmt.Errorf("request %#x", e.Request)
	case e.Process < 0 || e.Process > maxNumber:
		return fmt.Errorf("process %d", e.Process)
	case e.PID <= 1:
		return fmt.Errorf("process id %d", e.PID)
	case len(e.Script) > frame.MaxScript:
		return fmt.Errorf("command of %d bytes", len(e.Script))
	case e.Started <= 0:
		return fmt.Errorf("start at %d", e.Started)
	case e.Exit != nil:
		return checkExit(*e.Exit)
	}
	return nil
}

// rebuild makes a box of a supervisor that has proved itself.
func (m *Manager) rebuild(conn net.Conn, reader *frame.Reader, r record, t *tenure, entries []frame.KeptEntry) *box {
	o := order{
		debts: m.debts, tenure: t, workspace: m.workspaces.path(r.Session),
		container: Container{Image: r.Spec.Image, Labels: map[string]string{LabelSession: r.Session}},
	}
	if r.Spec.Network == allowlist {
		m.offerProxy(&o, r.Spec, r.Host)
	}
	b := newBox(m.config.Driver, m.log, r.Container, o)
	b.born = r.Born
	var open []*call
	last := uint32(0)
	for _, e := range entries {
		p := b.resume(e)
		if e.Exit == nil {
			open = append(open, p.call)
		}
		last = max(last, e.Request)
	}
	b.connect(conn, reader, last, o, open...)
	b.onceRemoved(m.config.Holds.Enter(r.Session))
	go b.watch()
	return b
}

// resume enters a background process as it was.
func (b *box) resume(e frame.KeptEntry) *process {
	p := &process{number: e.Process, call: newCall(0), finish: func() {}}
	p.call.id = e.Request
	p.call.pid.Store(true)
	p.info = machine.Process{
		ID: p.id(), PID: e.PID, Script: string(e.Script), Started: time.Unix(0, e.Started), Running: true,
	}
	if e.Exit != nil {
		p.call.finish(answer{exit: e.Exit})
	}
	b.processes[p.info.ID] = p
	b.started = max(b.started, e.Process)
	return p
}
