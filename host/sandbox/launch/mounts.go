package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// HeldBytes bounds the read-only files of a program: the program, the files beside it and Flynn's modules.
const HeldBytes = 17 << 20

// mountSet is everything that a container mounts except its workspace.
type mountSet struct {
	l     *Launcher
	spec  spec.Spec
	owner workspace.Owner
	held  []*mounts.Source // in the order of Spec.HostMounts
}

// place prepares everything and adds it to the launch specification. release frees what it holds.
func (f *mountSet) place(ctx context.Context, o *launchSpec) (err error) {
	if err := f.move(ctx, o); err != nil {
		return err
	}
	if f.held, err = f.l.engine.openSources(ctx, f.spec.HostMounts()); err != nil {
		return err
	}
	for i, h := range f.spec.HostMounts() {
		o.hello.Mounts = append(o.hello.Mounts, []byte(h.Target))
		o.container.Mounts = append(o.container.Mounts,
			driver.Mount{Source: f.held[i].Path, Target: h.Target, ReadOnly: !h.Writable, Alone: true})
	}
	if err := f.placeVolumes(ctx, o); err != nil {
		return err
	}
	o.container.Mounts = append(o.container.Mounts, driver.Mount{Kind: driver.Memory, Target: frame.HeldFolder, Bytes: HeldBytes})
	o.hello.Scratch = append(o.hello.Scratch, []byte("/tmp"))
	for _, t := range f.spec.MemoryMounts() {
		o.hello.Scratch = append(o.hello.Scratch, []byte(t.Target))
		o.container.Mounts = append(o.container.Mounts, driver.Mount{Kind: driver.Memory, Target: t.Target, Bytes: t.Bytes})
	}
	return nil
}

func (f *mountSet) placeVolumes(ctx context.Context, o *launchSpec) error {
	session := o.container.Labels[driver.LabelSession]
	place := func(v Volume, target string, readOnly bool) error {
		name, _, err := f.l.Volumes.Provide(ctx, v, o.container.Image, f.owner)
		if err != nil {
			return err
		}
		o.container.Mounts = append(o.container.Mounts, driver.Mount{Kind: driver.Volume, Source: name, Target: target, ReadOnly: readOnly})
		return nil
	}
	for _, v := range f.spec.Volumes {
		whose := session
		if v.Shared {
			whose = ""
		}
		if err := place(Volume{Name: v.Name, Session: whose}, v.Target, v.ReadOnly); err != nil {
			return err
		}
	}
	main, _ := f.spec.Main()
	for _, v := range main.Volumes {
		if err := place(projectVolume(session, v.Name), v.Target, v.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}

func (f *mountSet) release() {
	closeAll(f.held)
	f.held = nil
}

// verify compares the mounts that the supervisor reports with what was checked. Between the check and the engine's mount, a process that
// can write to a folder above a source could replace it by a link; in that case the container is refused before a command has run in it.
// Nothing can be compared if the engine runs on another kernel, such as in a virtual machine on the same computer, or if the runtime
// changes file numbers.
func (f *mountSet) verify(w frame.WelcomeBody) error {
	if len(w.Mounts) != len(f.held) {
		return errors.New("it does not report its mounts")
	}
	if len(f.held) == 0 {
		return nil
	}
	here, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(here) == 0 || string(bytes.TrimSpace(here)) != w.BootID {
		return nil
	}
	for i, s := range f.held {
		if found := (mounts.ID{Dev: w.Mounts[i].Dev, Ino: w.Mounts[i].Ino}); found != s.ID() {
			return fmt.Errorf("the mount at %s is not %s, which was replaced meanwhile", f.spec.HostMounts()[i].Target, s.Path)
		}
	}
	return nil
}

const (
	// workspaceVolume is a name that the configuration cannot give to a volume.
	workspaceVolume = ".workspace"
	// ephemeralWorkspace bounds the workspace of a container without a session. It counts towards the container's memory.
	ephemeralWorkspace = 256 << 20
)

// An engine on another machine cannot mount the host's folders. There the workspace is a volume, or a disk of the container, that is
// synchronised (package wssync), and commands run as workspace.Workload.

// move adapts a launch specification to an engine on another machine. It is called before anything else is placed.
func (f *mountSet) move(ctx context.Context, o *launchSpec) error {
	if f.l.config.Driver.Binds() {
		return nil
	}
	f.owner = workspace.Workload()
	o.hello.UID, o.hello.GID = f.owner.UID, f.owner.GID
	if !o.ownership.Dialed() {
		o.dropControlSocket()
	}
	if driver.Copies(f.l.config.Driver) {
		f.copy(o)
		return f.refuseBinds(o)
	}
	supervisor, entry, err := f.l.supervisor.mount(ctx, o.container.Image)
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

// copy replaces what the container would mount of the host by copies, and the workspace by a disk.
func (f *mountSet) copy(o *launchSpec) {
	for i, mount := range o.container.Mounts {
		if mount.Target == f.spec.WorkspaceDir {
			o.container.Mounts[i] = f.disk(o, mount.Target)
		} else if mount.Kind == driver.Bind {
			o.container.Mounts[i].Kind = driver.Copy
		}
	}
}

// disk returns a disk for the workspace of a container, which is synchronised if it has a session.
func (f *mountSet) disk(o *launchSpec, target string) driver.Mount {
	if o.container.Labels[driver.LabelSession] != "" {
		o.sync = f.l.Syncs.Own(o.workspace, o.container.Key, f.spec.Workspace == spec.WorkspaceReadOnly)
	}
	return driver.Mount{Kind: driver.Disk, Target: target, Bytes: diskFor(o.hello.DiskBytes)}
}

// diskFor returns the size of the disk for a workspace with a limit: larger, because the supervisor holds the limit, and an engine may end a
// container whose disk is full.
func diskFor(limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	return limit + limit/4 + 16<<20
}

// moveWorkspace returns the replacement for the host's folder. Only the workspace of a session is synchronised: without a session it lasts
// no longer than its container, and is kept in memory.
func (f *mountSet) moveWorkspace(ctx context.Context, o *launchSpec) (driver.Mount, error) {
	session, target := o.container.Labels[driver.LabelSession], f.spec.WorkspaceDir
	if driver.Disks(f.l.config.Driver) {
		return f.disk(o, target), nil
	}
	if session == "" {
		return driver.Mount{Kind: driver.Memory, Target: target, Bytes: ephemeralWorkspace}, nil
	}
	v, sandbox := Volume{Name: workspaceVolume, Session: session}, o.container.Labels[driver.LabelSandbox]
	if f.spec.Workspace == spec.WorkspaceOwn {
		v.Name += "-" + spec.Short(sandbox)
	}
	name, mark, err := f.l.Volumes.Provide(ctx, v, o.container.Image, f.owner)
	readOnly := f.spec.Workspace == spec.WorkspaceReadOnly
	if !readOnly { // otherwise it is up to the container that called
		o.sync = f.l.Syncs.Of(f.spec.Folder(session, sandbox), o.workspace, mark)
	}
	return driver.Mount{Kind: driver.Volume, Source: name, Target: target, ReadOnly: readOnly}, err
}

// refuseBinds refuses mounts that an engine on another machine cannot provide.
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

// dropControlSocket withdraws a control socket that the supervisor could not see.
func (o *launchSpec) dropControlSocket() {
	o.ownership.Withdraw()
	o.hello.ControlSocket, o.hello.Lease, o.hello.Secret = "", 0, nil
	o.container.Mounts = slices.DeleteFunc(o.container.Mounts, func(m driver.Mount) bool { return m.Target == container.ControlFolder })
}
