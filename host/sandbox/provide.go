package sandbox

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// launchTimeout bounds the making of a container, apart from pulling its image, which has the
// driver's deadline.
const launchTimeout = 20 * time.Minute

// provide takes a warm container if one fits, or makes one. The end of ctx ends the wait for its image; what comes after
// that is seen through.
func (m *Manager) provide(ctx context.Context, s *Session, allowed admission) (*box, error) {
	defer m.pools.Hurry()()
	hold := m.config.Holds.Enter(s.session)
	leave := func() { hold(); allowed.release() }
	var b *box
	if allowed.disk == s.spec.DiskBytes { // one that waits has been told its limit
		b = m.claim(s)
	}
	if b == nil {
		var err error
		if b, err = m.makeFor(ctx, s, allowed); err != nil {
			leave()
			return nil, err
		}
	}
	b.onceRemoved(leave)
	return b, nil
}

// makeFor makes a container on the session's own workspace.
func (m *Manager) makeFor(ctx context.Context, s *Session, allowed admission) (*box, error) {
	ref, err := m.PrepareImage(ctx, s.spec)
	if err != nil {
		return nil, err
	}
	folder, owner, err := m.workspaces.Prepare(s.folder())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), launchTimeout)
	defer cancel()
	if err := m.config.Driver.Ping(ctx); err != nil {
		return nil, err
	}
	o := m.launchSpec(s.spec, folder, owner)
	o.hello.DiskBytes = allowed.disk
	o.container.Image = ref
	o.container.Name = "flynn-" + workspace.Name(s.session) + "-" + o.container.Key[:8]
	o.container.Labels[driver.LabelSession] = s.session
	o.container.Labels[driver.LabelSandbox] = s.name
	return launch(ctx, m.config.Driver, m.log, o)
}

// folder names the session's workspace, or one of its own.
func (s *Session) folder() string {
	if s.spec.Workspace == spec.WorkspaceOwn {
		return s.session + "\x00" + s.name
	}
	return s.session
}

// supervisorPath is where containers see the supervisor.
const supervisorPath = "/.flynn-sandboxd"

// launchSpec describes a container for a folder; the caller names it, and its image.
func (m *Manager) launchSpec(wanted spec.Spec, folder string, owner workspace.Owner) launchSpec {
	nonce := spec.NewKey()
	o := launchSpec{
		nonce:     nonce,
		reaper:    m.reaper,
		workspace: folder,
		ownership: m.newOwnership(nonce),
		hello: frame.HelloBody{
			UID: owner.UID, GID: owner.GID, Workspace: wanted.WorkspaceDir, DiskBytes: wanted.DiskBytes, DiskEntries: wanted.DiskEntries,
		},
		container: driver.Container{
			Key:        nonce,
			Entrypoint: []string{supervisorPath, nonce},
			Labels:     m.labels(nonce, m.config.MaxAge),
			Mounts: []driver.Mount{
				{Source: m.supervisor, Target: supervisorPath, ReadOnly: true},
				{Source: folder, Target: wanted.WorkspaceDir, ReadOnly: wanted.Workspace == spec.WorkspaceReadOnly},
			},
			Network: wanted.DriverNetwork(), MemoryBytes: wanted.MemoryBytes, CPUs: wanted.CPUs,
			PidsLimit: wanted.PidsLimit, Runtime: wanted.Runtime,
		},
	}
	o.container.Labels[driver.LabelSpec] = wanted.Hash(m.digest)
	o.mounts = mountSet{m: m, spec: wanted, owner: owner}
	offerNames(&o, wanted)
	if wanted.Network == spec.Allowlist {
		m.offerProxy(&o, wanted, m.host.ID())
	}
	m.offerBridges(&o, wanted)
	if wanted.Runtime == "" { // other runtimes do not let the host's sockets in
		m.offerControlSocket(&o)
	}
	return o
}

// trustPath is where containers see the certificates of their proxy.
const trustPath = "/.flynn-trust"

// offerProxy lets programs in a container without a network reach what the specification lists.
// host is the process that has made the container.
func (m *Manager) offerProxy(o *launchSpec, spec spec.Spec, host string) {
	rules, err := netaddr.ParseRules(spec.Allowlist)
	if err != nil { // validate has read them, so this is for a caller that has not asked it: nothing is reached
		m.log.Error("cannot read the allowlist", "error", err)
	}
	credentials, err := spec.ParseCredentials(m.config.Secret)
	if err != nil {
		m.log.Error("cannot read credentials", "error", err)
	}
	o.hello.Proxy = true
	o.watch, o.egress = m.config.Egress, &egress.Config{
		Rules: rules, Network: m.config.Network, Credentials: credentials, Roots: m.config.Roots, Limit: spec.EgressLimit,
	}
	trusted, err := m.proxyCAs.Of(host, spec.Allowlist, credentials)
	if err != nil { // tunnels then stay whole, and carry what the program itself says
		m.log.Error("cannot put credentials into tunnels", "error", err)
	}
	if trusted != nil {
		o.egress.Authority = trusted.Authority
		for _, variable := range trusted.Env(trustPath) {
			o.hello.Env = append(o.hello.Env, []byte(variable))
		}
		o.container.Mounts = append(o.container.Mounts, driver.Mount{Source: trusted.Folder, Target: trustPath, ReadOnly: true})
	}
}

// offerControlSocket adds a control socket; without one everything works, only slower.
func (m *Manager) offerControlSocket(o *launchSpec) {
	l, err := newControlSocket(m.controlFolderOf(m.host.ID(), o.nonce))
	if err != nil {
		m.log.Warn("sandbox has no control socket", "error", err)
		return
	}
	o.control, o.ownership.control = l, l
	o.hello.Lease, o.hello.Secret = o.ownership.offer(m.leaseOf(o.mounts.spec))
	o.hello.ControlSocket = controlFolder + "/" + controlName
	o.container.Mounts = append(o.container.Mounts, l.mount())
}

// leaseOf is none for a container with services: nobody would look after them meanwhile.
func (m *Manager) leaseOf(spec spec.Spec) time.Duration {
	if spec.Compose != nil {
		return 0
	}
	return m.config.Lease
}

// labels are those of a container that this process makes, by which it is found should the process die.
func (m *Manager) labels(key string, life time.Duration) map[string]string {
	return map[string]string{
		driver.LabelInstance: m.config.Instance, driver.LabelHost: m.host.ID(), driver.LabelPlace: m.host.Place(), driver.LabelKey: key,
		driver.LabelExpires: time.Now().Add(life).UTC().Format(time.RFC3339),
	}
}
