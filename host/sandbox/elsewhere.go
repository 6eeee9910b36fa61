package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// An engine on another machine sees none of the host's folders. There the supervisor comes from a volume that is filled
// once, and the workspace is a volume that is carried to and fro (package wssync); commands run as workspace.Workload.

const (
	// supervisorFolder is where containers see the volume with the supervisor.
	supervisorFolder = "/.flynn-bin"
	// supervisorVolume and workspaceVolume are names that the configuration cannot give a volume.
	supervisorVolume = ".supervisor-"
	workspaceVolume  = ".workspace"
)

// engineLocation is what the host knows about where its engine is.
type engineLocation struct {
	where   atomic.Int32 // unknown, here or elsewhere
	filling sync.Mutex   // guards filled, and is held over the filling
	filled  bool         // the supervisor's volume
}

const (
	here      = 1
	elsewhere = 2
)

// binds reports whether the engine sees the host's folders.
func (m *Manager) binds(ctx context.Context) (bool, error) {
	if m.location.where.Load() == 0 {
		binds, err := askBinds(ctx, m.config.Driver)
		if err != nil {
			return false, err
		}
		if binds {
			m.location.where.Store(here)
		} else {
			m.location.where.Store(elsewhere)
		}
	}
	return m.location.where.Load() == here, nil
}

// askBinds asks the engine only if the driver does not know by itself: an engine under load takes seconds to describe itself.
func askBinds(ctx context.Context, d driver.Driver) (bool, error) {
	if b, is := d.(driver.Binder); is {
		return b.Binds(), nil
	}
	c, err := d.Capabilities(ctx)
	return c.Binds, err
}

// isElsewhere reports whether the engine is known not to see the host's folders.
func (m *Manager) isElsewhere() bool { return m.location.where.Load() == elsewhere }

// move makes a launch spec fit for an engine elsewhere, if it is one. It comes before anything else is placed.
func (f *mountSet) move(ctx context.Context, o *launchSpec) error {
	m := f.m
	if binds, err := m.binds(ctx); err != nil || binds {
		return err
	}
	f.owner = workspace.Workload()
	o.hello.UID, o.hello.GID = f.owner.UID, f.owner.GID
	o.dropControlSocket()
	supervisor, entry, err := m.supervisorMount(ctx, o.container.Image)
	if err != nil {
		return err
	}
	workspace, err := f.moveWorkspace(ctx, o)
	if err != nil {
		return err
	}
	for i, mount := range o.container.Mounts {
		switch mount.Target {
		case supervisorPath:
			o.container.Mounts[i] = supervisor
		case f.spec.WorkspaceDir:
			o.container.Mounts[i] = workspace
		}
	}
	o.container.Entrypoint[0] = entry
	return f.refuseBinds(o)
}

// ephemeralWorkspace bounds the workspace of a container that serves no session. It counts as the container's memory.
const ephemeralWorkspace = 256 << 20

// moveWorkspace is what takes the place of the host's folder. Only a session's is carried: what serves none lasts no longer
// than its container, and is kept in memory.
func (f *mountSet) moveWorkspace(ctx context.Context, o *launchSpec) (driver.Mount, error) {
	session, target := o.container.Labels[driver.LabelSession], f.spec.WorkspaceDir
	if session == "" {
		return driver.Mount{Kind: driver.Memory, Target: target, Bytes: ephemeralWorkspace}, nil
	}
	name, mark, err := f.m.volumes.provide(ctx, volume{name: workspaceVolume, session: session}, o.container.Image, f.owner)
	o.sync = f.m.syncs.Of(session, o.workspace, mark)
	return driver.Mount{Kind: driver.Volume, Source: name, Target: target}, err
}

// beginHome makes the volume of an engine elsewhere and the host's folder the same before the first command runs.
func (b *box) beginHome(ctx context.Context) error {
	if b.sync == nil {
		return nil
	}
	if err := b.sync.Begin(ctx, b.link); err != nil {
		return fmt.Errorf("carry the workspace to the sandbox: %w", err)
	}
	return nil
}

// bringHome brings what commands have changed from an engine elsewhere into the host's folder.
func (b *box) bringHome(ctx context.Context) {
	if b.sync == nil || b.link.Dead() {
		return
	}
	if err := b.sync.Fetch(ctx, b.link); err != nil {
		b.log.Warn("cannot copy a workspace home; trying again", "container", b.id, "error", err)
	}
}

// refuseBinds says what cannot be had on an engine elsewhere.
func (f *mountSet) refuseBinds(o *launchSpec) error {
	for _, mount := range o.container.Mounts {
		if mount.Kind == driver.Bind {
			return fmt.Errorf("%w: the engine is on another machine, where there is nothing to mount at %s: remove credentials from [sandbox], or use an engine on this machine",
				machine.ErrUnavailable, mount.Target)
		}
	}
	if len(f.spec.Mounts) > 0 {
		return fmt.Errorf("%w: the engine is on another machine and cannot mount %s: remove mounts from [sandbox], or use an engine on this machine",
			machine.ErrUnavailable, f.spec.Mounts[0].Source)
	}
	return nil
}

// dropControlSocket takes back the offer of a socket that the supervisor could not see.
func (o *launchSpec) dropControlSocket() {
	if o.control == nil {
		return
	}
	o.control.close()
	o.control, o.ownership.control, o.ownership.lease = nil, nil, 0
	o.hello.ControlSocket, o.hello.Lease, o.hello.Secret = "", 0, nil
	kept := o.container.Mounts[:0]
	for _, mount := range o.container.Mounts {
		if mount.Target != controlFolder {
			kept = append(kept, mount)
		}
	}
	o.container.Mounts = kept
}

// supervisorMount is how a container gets the supervisor, and where it finds it.
func (m *Manager) supervisorMount(ctx context.Context, image string) (driver.Mount, string, error) {
	binds, err := m.binds(ctx)
	if err != nil {
		return driver.Mount{}, "", err
	}
	if binds {
		return driver.Mount{Source: m.supervisor, Target: supervisorPath, ReadOnly: true}, supervisorPath, nil
	}
	name, err := m.fillSupervisor(ctx, image)
	return driver.Mount{Kind: driver.Volume, Source: name, Target: supervisorFolder, ReadOnly: true}, supervisorFolder + "/" + program.Supervisor, err
}

// fillSupervisor makes the volume with this host's supervisor, once in this process.
func (m *Manager) fillSupervisor(ctx context.Context, image string) (string, error) {
	v := volume{name: supervisorVolume + m.digest}
	name := v.engineName(m.config.Instance)
	m.location.filling.Lock()
	defer m.location.filling.Unlock()
	if m.location.filled {
		return name, nil
	}
	volumes, is := m.config.Driver.(driver.Volumes)
	filler, can := m.config.Driver.(driver.Filler)
	if !is || !can {
		return "", fmt.Errorf("%w: this engine neither sees the host's folders nor keeps volumes", machine.ErrUnavailable)
	}
	supervisor, err := os.ReadFile(m.supervisor)
	if err != nil {
		return "", fmt.Errorf("read supervisor: %w", err)
	}
	if _, err := volumes.EnsureVolume(ctx, name, v.labels(m.config.Instance)); err != nil {
		return "", err
	}
	if err := m.fill(ctx, filler, name, image, supervisor); err != nil {
		return "", fmt.Errorf("put the supervisor on the engine: %w", err)
	}
	m.location.filled = true
	m.removeOldSupervisors(ctx, name)
	return name, nil
}

// fill puts the supervisor into the volume by way of a container that never runs.
func (m *Manager) fill(ctx context.Context, d driver.Filler, name, image string, supervisor []byte) error {
	key := spec.NewKey()
	defer m.newOwnership(key).release()
	c := driver.Container{
		Key: key, Name: "flynn-fill-" + key[:16], Image: image, Role: driver.Preparer, Entrypoint: []string{"/never"},
		Labels:  m.labels(key, launchTimeout),
		Mounts:  []driver.Mount{{Kind: driver.Volume, Source: name, Target: volumeTarget}},
		Network: "none", MemoryBytes: ownMemory, CPUs: 1, PidsLimit: ownPids,
	}
	defer m.reaper.Abandon(c.Name, nil)
	id, err := create(ctx, m.config.Driver, m.log, c)
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = w.WriteHeader(&tar.Header{Name: program.Supervisor, Typeflag: tar.TypeReg, Mode: 0o555, Size: int64(len(supervisor))})
	if err == nil {
		_, err = w.Write(supervisor)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return d.Fill(ctx, id, volumeTarget, &files)
}

// removeOldSupervisors removes the volumes of earlier supervisors. The engine keeps those that are in use, for the next time.
func (m *Manager) removeOldSupervisors(ctx context.Context, current string) {
	prefix := volume{name: supervisorVolume}.engineName(m.config.Instance)
	err := m.RemoveVolumes(ctx, func(o driver.Owned) bool { return o.Name != current && strings.HasPrefix(o.Name, prefix) })
	if err != nil {
		m.log.Debug("volumes of earlier supervisors stay", "error", err)
	}
}
