// Package launch creates containers from specifications: it prepares what they mount and are offered, and verifies that their supervisor
// runs in the right place and sees what was requested.
//
// Start with Launcher (launch.go): Launch creates a container for a session, Slot one for a pool, and Regain continues with one that an
// earlier process has left. boot.go starts and verifies a container; mounts.go, volume.go and supervisor.go prepare its mounts; images.go
// its image, project.go the services beside it; bridge.go and proxy.go offer bridged commands and the proxy.
//
// It does not decide whether a container may be created, which session gets it or when it ends: package sandbox does, and package container
// manages it.
package launch

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/liveness"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// Installation is an engine, an instance on it, and this process.
type Installation struct {
	Driver        driver.Driver
	Instance      string
	Run           string // the instance's folder for files that containers mount
	WorkspaceRoot string
	Workspaces    *workspace.Root
	Supervisor    string           // path of the copy of flynn-sandboxd that containers mount
	Digest        string           // of Supervisor
	MaxAge        time.Duration    // of a container
	Host          *liveness.Member // this process
	Keys          *container.Keys  // of its containers
	// Registry has the records of containers that other hosts can take over; nil if there are none.
	Registry container.Registry
	Log      *slog.Logger
}

// Config configures a Launcher.
type Config struct {
	Installation
	Lease   time.Duration
	Reaper  *reaper.Reaper
	Egress  Egress
	Bridges Bridges
	Network egress.Network
	Roots   *x509.CertPool

	// MountRules returns the rules for host folders that may be mounted at the moment; nil allows none. Secret returns a secret by name, or
	// ""; it may be nil.
	MountRules func() mounts.Rules
	Secret     func(name string) string
}

// Egress observes the proxy's decisions; see sandbox.Egress.
type Egress interface {
	Decided(session message.WorkspaceKey, d egress.Decision)
	Ended(session message.WorkspaceKey, d egress.Decision)
}

// Bridges answers the bridged commands of containers.
type Bridges interface {
	// Server answers the calls from one container, which may have no session yet.
	Server(c *container.Container, s spec.Spec) *bridge.Server
}

// Launcher creates containers. Its methods are safe for concurrent use.
type Launcher struct {
	Images   *Images
	Volumes  *Volumes
	ProxyCAs *proxyca.Store
	Syncs    *wssync.Set

	config     Config
	log        *slog.Logger
	engine     *engine
	supervisor *supervisor
}

// New returns a Launcher. It does not contact the engine.
func New(c Config) *Launcher {
	e := &engine{Config: c}
	s := &supervisor{engine: e}
	return &Launcher{
		Images: newImages(e), Volumes: &Volumes{engine: e, supervisor: s, ready: make(map[string]*readiness)},
		ProxyCAs: proxyca.New(c.Run), Syncs: wssync.NewSet(c.Run, c.Log),
		config: c, log: c.Log, engine: e, supervisor: s,
	}
}

// Timeout bounds the creation of a container, except for pulling its image, which has the driver's deadline.
const Timeout = 20 * time.Minute

// Request requests a session's container.
type Request struct {
	Spec    spec.Spec
	Session message.WorkspaceKey
	Sandbox string
	Folder  message.WorkspaceKey // name of the workspace
	Disk    int64                // size limit of the workspace in bytes; 0 means none
}

// Launch creates a container for a session's workspace. When ctx ends, it stops waiting for the image; later steps are completed.
func (l *Launcher) Launch(ctx context.Context, r Request) (*container.Container, error) {
	ref, err := l.Images.Prepare(ctx, r.Spec)
	if err != nil {
		return nil, err
	}
	folder, owner, err := l.config.Workspaces.Prepare(r.Folder)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	if err := l.config.Driver.Ping(ctx); err != nil {
		return nil, err
	}
	o := l.launchSpec(r.Spec, folder, owner)
	o.hello.DiskBytes = r.Disk
	o.container.Image = ref
	o.container.Name = "flynn-" + workspace.Name(r.Session) + "-" + o.container.Key[:8]
	o.container.Labels[driver.LabelSession] = string(r.Session)
	o.container.Labels[driver.LabelSandbox] = r.Sandbox
	return l.launch(ctx, o)
}

const rehearsalTimeout = 5 * time.Second

// Slot creates a container with its own empty folder and no session. It is completed even if ctx ends meanwhile, so that no half-created
// container stays on the engine.
func (l *Launcher) Slot(ctx context.Context, s spec.Spec, ref string) (*container.Container, error) {
	folder, owner, err := l.config.Workspaces.Slot(spec.NewKey())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	o := l.launchSpec(s, folder, owner)
	o.container.Name, o.container.Image = "flynn-warm-"+o.container.Key[:16], ref
	c, err := l.launch(ctx, o)
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	// This loads the files that a container's first command needs before somebody waits for it. An image without a shell has no such
	// command, and a container that has died is noticed by the call that takes it.
	_, _ = c.Exec(ctx, machine.Command{Script: ":", Timeout: rehearsalTimeout})
	return c, nil
}

// Regain continues with a container that an earlier process has left and whose supervisor has proved its identity. entries are its
// background commands.
func (l *Launcher) Regain(ctx context.Context, conn driver.Stream, reader *frame.Reader, r container.Record, o *container.Ownership, entries []frame.KeptEntry) (*container.Container, error) {
	folder := message.WorkspaceKey(r.Spec.Folder(string(r.Session), r.Sandbox))
	path := l.config.Workspaces.Path(folder)
	var proxy *egress.Config
	if r.Spec.Network == spec.Allowlist {
		var trusted *proxyca.Bundle
		if proxy, trusted = l.proxyConfig(r.Spec, r.Host); trusted != nil && r.Instance != "" {
			return nil, errors.New("its programs trust the proxy of the host that made it, for the credentials of [sandbox]")
		}
	}
	push := (*container.Container).PushWorkspace
	if r.Instance != "" {
		if _, _, err := l.config.Workspaces.Prepare(folder); err != nil {
			return nil, err
		}
		push = (*container.Container).AdoptWorkspace
	}
	c := container.New(container.Config{
		ID: r.Container, Image: r.Spec.Image, Workspace: path, Session: r.Session, Born: r.Born,
		Driver: l.config.Driver, Reaper: l.config.Reaper, Ownership: o, Sync: l.sync(r, path), Log: l.log,
	})
	c.Connect(conn, l.handlers(c, r.Spec, proxy, len(r.Spec.Bridges) > 0), r.Spec.WorkspaceDir, "")
	for _, e := range entries {
		c.Resume(e)
	}
	go c.Link.Serve(reader)
	c.Serve()
	if err := push(c, ctx); err != nil {
		return nil, errors.Join(err, c.Remove(err))
	}
	return c, nil
}

// sync returns what synchronises the workspace of a container that an earlier process has left, or nil if the container mounts it. It is the
// container's own then, because no other container outlasts a host.
func (l *Launcher) sync(r container.Record, path string) *wssync.Syncer {
	if l.config.Driver.Binds() {
		return nil
	}
	return l.Syncs.Own(path, r.Key, r.Spec.Workspace == spec.WorkspaceReadOnly)
}

// CheckMounts returns why the current rules refuse what a specification mounts from the host, or nil.
func (l *Launcher) CheckMounts(ctx context.Context, s spec.Spec) error {
	sources, err := l.engine.openSources(ctx, s.HostMounts())
	closeAll(sources)
	return err
}

// supervisorPath is the path of the supervisor in containers.
const supervisorPath = "/.flynn-sandboxd"

// launchSpec describes a container that is about to be created.
type launchSpec struct {
	spec      spec.Spec
	container driver.Container
	hello     frame.HelloBody
	nonce     string
	networked bool // the supervisor is reached over a network, so the container has one
	workspace string
	mounts    mountSet
	ownership *container.Ownership
	sync      *wssync.Syncer // may be nil
	proxy     *egress.Config // nil for none
}

// launchSpec returns the description of a container for a folder; the caller sets its name and image.
func (l *Launcher) launchSpec(s spec.Spec, folder string, owner workspace.Owner) *launchSpec {
	nonce := spec.NewKey()
	o := &launchSpec{
		spec:      s,
		nonce:     nonce,
		workspace: folder,
		ownership: l.engine.own(nonce),
		hello: frame.HelloBody{
			UID: owner.UID, GID: owner.GID, Workspace: s.WorkspaceDir, DiskBytes: s.DiskBytes, DiskEntries: s.DiskEntries,
		},
		container: driver.Container{
			Key:        nonce,
			Entrypoint: []string{supervisorPath, nonce},
			Labels:     l.engine.labels(nonce, l.config.MaxAge),
			Mounts: []driver.Mount{
				{Source: l.config.Supervisor, Target: supervisorPath, ReadOnly: true},
				{Source: folder, Target: s.WorkspaceDir, ReadOnly: s.Workspace == spec.WorkspaceReadOnly},
			},
			Network: s.DriverNetwork(), MemoryBytes: s.MemoryBytes, CPUs: s.CPUs, PidsLimit: s.PidsLimit, BestEffort: s.BestEffort, Unfiltered: s.Unfiltered(), Runtime: s.Runtime,
		},
	}
	o.container.Labels[driver.LabelSpec] = s.Hash(l.config.Digest)
	o.mounts = mountSet{l: l, spec: s, owner: owner}
	offerNames(o)
	if s.Network == spec.Allowlist {
		l.offerProxy(o)
	}
	l.offerBridges(o)
	o.hello.Epoch = o.ownership.Epoch()
	return o
}

// offerConnection adds a way to the supervisor other than its standard streams.
func (l *Launcher) offerConnection(o *launchSpec) (err error) {
	if _, is := l.config.Driver.(driver.Dialed); is {
		o.container.Identity, o.hello.Lease, o.hello.Secret, err = o.ownership.OfferIdentity(l.lease(o))
		return err
	}
	if o.spec.Runtime == "" { // other runtimes do not support sockets of the host
		l.offerControlSocket(o)
	}
	return nil
}

// lease returns how long a container may outlive this process.
func (l *Launcher) lease(o *launchSpec) time.Duration {
	if o.spec.Compose != nil { // nobody would watch its services meanwhile
		return 0
	}
	return l.config.Lease
}

// offerControlSocket adds a control socket; everything works without one, but more slowly. A direct stream needs the folder for a lease only.
func (l *Launcher) offerControlSocket(o *launchSpec) {
	lease, create := l.lease(o), container.NewControlSocket
	direct, is := l.config.Driver.(driver.Direct)
	if is {
		if lease <= 0 {
			return
		}
		create = container.NewControlFolder
		o.ownership.Expect(direct.SupervisorUser())
	}
	socket, err := create(container.ControlFolderOf(l.config.Run, l.config.Host.ID(), o.nonce))
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		l.log.Warn("sandbox has no control socket", "error", err)
		return
	}
	o.hello.Lease, o.hello.Secret = o.ownership.Offer(socket, lease)
	o.hello.ControlSocket = container.ControlPath
	o.container.Mounts = append(o.container.Mounts, socket.Mount())
}
