package selftest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// site is everything that one run of the suite creates and removes.
type site struct {
	driver   driver.Driver
	engine   *docker.Driver // the driver, if it is of a container engine
	spec     spec.Spec
	instance string
	scratch  string // workspaces
	mark     *os.File
	outside  string
	program  []byte
	uid, gid int // of the workload
	listener net.Listener
	accepts  sync.WaitGroup
	manager  *sandbox.Manager
	between  *middleman
	subject  Subject
	weak     map[string]*weakMachine // by Control
	has      driver.Capabilities
	bridged  lastCall
}

// lastCall records whether the last call of a bridge was allowed.
type lastCall struct {
	sandbox.NoEgress
	allowed atomic.Bool
}

// Bridged implements sandbox.Egress.
func (l *lastCall) Bridged(_ message.WorkspaceKey, d bridge.Decision) { l.allowed.Store(d.Allowed) }

// workloadID is the user that commands run as if this host is root, as in package sandbox.
const workloadID = 1000

func openSite(ctx context.Context, c Config, has driver.Capabilities) (*site, error) {
	s := &site{
		driver: c.Driver, spec: affordable(c.Spec.WithDefaults()), instance: "verify-" + random(),
		uid: os.Getuid(), gid: os.Getgid(), weak: map[string]*weakMachine{}, has: has,
	}
	s.engine, _ = c.Driver.(*docker.Driver)
	if s.uid == 0 {
		s.uid = workloadID
	}
	if s.gid == 0 {
		s.gid = workloadID
	}
	if err := s.prepare(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the self-test: %w", err), s.close(ctx))
	}
	return s, nil
}

func (s *site) prepare(ctx context.Context, c Config) error {
	var err error
	if s.program, err = os.ReadFile(c.Program); err != nil {
		return err
	}
	if err := Sweep(ctx, c.Driver, c.Dir); err != nil {
		return err
	}
	if err := s.layOut(c.Dir); err != nil {
		return err
	}
	config := sandbox.Config{
		Driver: c.Driver, Instance: s.instance, WorkspaceRoot: filepath.Join(s.scratch, "workspaces"),
		Spec: s.spec, Supervisor: c.Supervisor, Log: c.Log, MountRules: c.MountRules, Network: nowhere{}, Egress: &s.bridged,
	}
	if s.manager, err = sandbox.New(config); err != nil {
		return err
	}
	if s.engine != nil {
		if s.between, err = standBetween(s.engine, filepath.Join(s.outside, "between")); err != nil {
			return err
		}
	}
	if err := s.openTroubled(config); err != nil {
		return err
	}
	return s.settle(ctx)
}

// layOut creates the folders on the host.
func (s *site) layOut(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var err error
	if s.outside, err = os.MkdirTemp("", outsidePrefix); err != nil { // the path of a socket must be short
		return err
	}
	if err := s.openScratch(dir); err != nil {
		return err
	}
	decoy := filepath.Join(s.outside, "decoy")
	err = errors.Join(
		os.WriteFile(filepath.Join(s.outside, "secret"), []byte(secret), 0o644),
		os.WriteFile(decoy, nil, 0o666), os.Chmod(decoy, 0o666),
	)
	if err != nil {
		return err
	}
	return s.listen(filepath.Join(s.outside, "engine"))
}

// listen imitates an engine's socket.
func (s *site) listen(path string) error {
	var err error
	if s.listener, err = net.Listen("unix", path); err != nil {
		return err
	}
	s.accepts.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	})
	return os.Chmod(path, 0o666)
}

// settle creates the two sessions and copies the program into the first.
func (s *site) settle(ctx context.Context) error {
	target, err := s.manager.Get(ctx, session, "verify", s.spec)
	if err != nil {
		return err
	}
	neighbour, err := s.manager.Get(ctx, "neighbour", "verify", s.spec)
	if err != nil {
		return err
	}
	behind, err := s.manager.Get(ctx, "proxied", "verify", proxied(s.spec))
	if err != nil {
		return err
	}
	root := filepath.Join(s.scratch, "workspaces")
	s.subject = Subject{
		Troubled: s.subject.Troubled, Target: target, Neighbour: neighbour, Proxied: behind, Spec: s.spec, Outside: s.outside, Logged: s.bridged.allowed.Load,
		Dir: workspace.Path(root, session), NeighbourDir: workspace.Path(root, "neighbour"),
	}
	if err := behind.WriteFile(ctx, programName, s.program, 0o755); err != nil {
		return fmt.Errorf("copy %s into the sandbox: %w", programName, err)
	}
	for _, name := range []string{programName, setUserID} {
		if err := target.WriteFile(ctx, name, s.program, 0o755); err != nil {
			return fmt.Errorf("copy %s into the sandbox: %w", programName, err)
		}
	}
	if err := errors.Join(s.lendRights(), s.findPeer(ctx)); err != nil {
		return err
	}
	return s.healthy(ctx) // otherwise every attack would seem to fail, or to harm the neighbour
}

// findPeer finds the neighbour's supervisor if the host reaches that over a network, although sandboxes are meant to have none. If the subject
// does not reach it, probes send their packets, because nothing passes.
func (s *site) findPeer(ctx context.Context) error {
	dialed, is := s.driver.(driver.Dialed)
	if !is || s.spec.Network != "none" {
		return nil
	}
	owned, err := s.driver.List(ctx, s.instance)
	i := slices.IndexFunc(owned, func(o driver.Owned) bool { return o.Labels[driver.LabelSession] == "neighbour" })
	if err != nil || i < 0 {
		return errors.Join(err, errors.New("the driver does not list the second session"))
	}
	at, err := dialed.Endpoint(ctx, owned[i].ID)
	if err != nil || at.Network != "tcp" {
		return err
	}
	s.subject.Peer = at.Address
	if f, err := noWayOut(ctx, &s.subject); err != nil || f.Status != Pass {
		return err
	}
	for _, session := range []Target{s.subject.Target, s.subject.Proxied} {
		if err := session.WriteFile(ctx, programName+".cut-off", nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lendRights makes the copy a set-user-ID program of the user that this host runs as. A change of owner clears the bit, so the bit is set
// second.
func (s *site) lendRights() error {
	path := filepath.Join(s.subject.Dir, setUserID)
	if err := os.Chown(path, os.Getuid(), os.Getgid()); err != nil {
		return err
	}
	return os.Chmod(path, 0o755|os.ModeSetuid)
}

// healthy returns an error unless the neighbour works as before.
func (s *site) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	r, err := s.subject.Neighbour.Exec(ctx, machine.Command{Script: "echo healthy", Timeout: scriptTimeout})
	if err == nil && string(r.Stdout) != "healthy\n" {
		err = fmt.Errorf("exit code %d, stdout %.60q", r.ExitCode, r.Stdout)
	}
	return err
}

// weaken returns the container of a control, and a function to call when done with it.
func (s *site) weaken(ctx context.Context, c Control) (*weakMachine, func(), error) {
	setup := c.Setup
	c.Setup = ""
	key := fmt.Sprintf("%+v", c)
	w := s.weak[key]
	if w == nil {
		var err error
		if w, err = s.launchWeak(ctx, c); err != nil {
			return nil, nil, fmt.Errorf("make a weak container: %w", err)
		}
		s.weak[key] = w
	}
	done := func() {
		if c.Single {
			w.remove(ctx)
			delete(s.weak, key)
		}
	}
	if err := w.setUp(ctx, setup); err != nil {
		done()
		return nil, nil, err
	}
	return w, done, nil
}

// closeTimeout bounds the cleanup, and haltTimeout that of a self-test which was interrupted: a host that stops waits for it.
const (
	closeTimeout = 2 * time.Minute
	haltTimeout  = 20 * time.Second
)

// close removes everything. Sweep removes the rest if the engine does not in time.
func (s *site) close(ctx context.Context) error {
	timeout := closeTimeout
	if ctx.Err() != nil {
		timeout = haltTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for _, w := range s.weak {
		w.remove(ctx)
	}
	var err error
	if s.manager != nil {
		err = s.manager.DestroyAll(ctx)
		err = errors.Join(err, s.manager.RemoveVolumes(ctx, func(driver.Owned) bool { return true }))
	}
	err = errors.Join(err, s.subject.Troubled.close(ctx))
	swept := err == nil
	err = errors.Join(err, s.between.close())
	if s.listener != nil {
		s.listener.Close()
		s.accepts.Wait()
	}
	if s.outside != "" {
		err = errors.Join(err, os.RemoveAll(s.outside))
	}
	if s.scratch != "" && swept { // otherwise Sweep finds the mark there
		err = errors.Join(err, os.RemoveAll(s.scratch))
	}
	if s.mark != nil {
		s.mark.Close()
	}
	return err
}

func random() string { return rand.Text()[:12] }
