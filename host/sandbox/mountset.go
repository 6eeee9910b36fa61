package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// heldBytes bounds what is held for a program: the program, the files beside it and the modules of Flynn's.
const heldBytes = maxCodeBytes + 1<<20

// mountSet is all that a container mounts besides its own files and the workspace.
type mountSet struct {
	m     *Manager
	spec  spec.Spec
	owner workspace.Owner
	held  []*mounts.Source // in the order of hostMounts
}

// place makes sure of everything and adds it to the order. What it holds is let go by release.
func (f *mountSet) place(ctx context.Context, o *launchSpec) error {
	if err := f.move(ctx, o); err != nil {
		return err
	}
	if err := f.holdSources(ctx); err != nil {
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
	o.container.Mounts = append(o.container.Mounts, driver.Mount{Kind: driver.Memory, Target: frame.HeldFolder, Bytes: heldBytes})
	o.hello.Scratch = append(o.hello.Scratch, []byte("/tmp"))
	for _, t := range f.spec.MemoryMounts() {
		o.hello.Scratch = append(o.hello.Scratch, []byte(t.Target))
		o.container.Mounts = append(o.container.Mounts, driver.Mount{Kind: driver.Memory, Target: t.Target, Bytes: t.Bytes})
	}
	return nil
}

func (f *mountSet) placeVolumes(ctx context.Context, o *launchSpec) error {
	session := o.container.Labels[driver.LabelSession]
	place := func(v volume, target string, readOnly bool) error {
		name, _, err := f.m.volumes.provide(ctx, v, o.container.Image, f.owner)
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
		if err := place(volume{name: v.Name, session: whose}, v.Target, v.ReadOnly); err != nil {
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

// holdSources applies the rules of this moment to the host's folders and files.
func (f *mountSet) holdSources(ctx context.Context) (err error) {
	f.held, err = f.m.openSources(ctx, f.spec.HostMounts())
	return err
}

func (f *mountSet) release() {
	closeAll(f.held)
	f.held = nil
}

func closeAll(sources []*mounts.Source) {
	for _, s := range sources {
		s.Close()
	}
}

// openSources applies the rules of this moment to folders and files of the host. Close what it returns.
func (m *Manager) openSources(ctx context.Context, wanted []spec.HostMount) ([]*mounts.Source, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	rules, err := m.mountRules(ctx)
	if err != nil {
		return nil, err
	}
	var sources []*mounts.Source
	for _, h := range wanted {
		s, err := rules.Open(h.Source)
		if err != nil {
			closeAll(sources)
			return nil, fmt.Errorf("sandbox: may not mount %w", err)
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// lookAgain makes sure, for a container that has no supervisor to say what it finds mounted, that the paths still lead where
// they did before it started. A swap that was undone in between it does not see: a process that may write to a folder above
// a source of a service must be trusted.
func (m *Manager) lookAgain(ctx context.Context, before []*mounts.Source, binds []compose.Bind) error {
	rules, err := m.mountRules(ctx)
	if len(before) == 0 || err != nil {
		return err
	}
	for i, s := range before {
		now, err := rules.Open(binds[i].Source)
		if err != nil {
			return err
		}
		same := now.ID() == s.ID() && now.Path == s.Path
		if now.Close(); !same {
			return fmt.Errorf("%s was swapped for something else meanwhile", binds[i].Source)
		}
	}
	return nil
}

// mountRules are the configured ones and what only the engine knows.
func (m *Manager) mountRules(ctx context.Context) (mounts.Rules, error) {
	if m.config.MountRules == nil {
		return mounts.Rules{}, nil
	}
	rules := m.config.MountRules()
	engine, err := m.config.Driver.Capabilities(ctx)
	if err != nil {
		return rules, err
	}
	socket, local := strings.CutPrefix(engine.Address, "unix://")
	if !local {
		return rules, fmt.Errorf("%w: the engine at %s is on another machine and cannot mount folders of this one: remove mounts from [sandbox]",
			machine.ErrUnavailable, engine.Address)
	}
	rules.Secret = append(append([]string{socket, m.config.WorkspaceRoot}, rules.Secret...), engine.DataRoot)
	return rules, nil
}

// verify compares what the supervisor found mounted with what was checked. Between the check and the engine's mount a
// source can be swapped for a link by a process that may write to a folder above it: then this refuses the container before a
// command has run in it. It cannot tell where the engine runs on another kernel (a virtual machine on the same desk), and is
// not asked about a runtime that shows files under numbers of its own.
func (f *mountSet) verify(w frame.WelcomeBody) error {
	if len(w.Mounts) != len(f.held) {
		return errors.New("it does not say what is mounted")
	}
	here, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(here) == 0 || string(bytes.TrimSpace(here)) != w.BootID {
		return nil
	}
	for i, s := range f.held {
		if found := (mounts.ID{Dev: w.Mounts[i].Dev, Ino: w.Mounts[i].Ino}); found != s.ID() {
			return fmt.Errorf("at %s something else is mounted than %s: it was swapped meanwhile", f.spec.HostMounts()[i].Target, s.Path)
		}
	}
	return nil
}
