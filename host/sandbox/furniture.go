package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// HostMount is a folder or file of the host that a sandbox sees.
type HostMount struct {
	Source   string // absolute
	Target   string // absolute, inside
	Writable bool
}

// VolumeMount is a volume of the engine, which outlives containers.
type VolumeMount struct {
	Name   string
	Target string
	// Shared is one volume for all sessions; otherwise each session has its own.
	Shared   bool
	ReadOnly bool
}

// MemoryMount is a folder in memory.
type MemoryMount struct {
	Target string
	Bytes  int64
}

// validateMounts refuses what no driver could honour. Whether a source may be mounted is decided when it is.
func (s Spec) validateMounts() error {
	var targets []string
	for _, m := range s.Mounts {
		targets = append(targets, m.Target)
	}
	for _, v := range s.Volumes {
		if !volumeNames.MatchString(v.Name) {
			return badVolumeName(v.Name)
		}
		targets = append(targets, v.Target)
	}
	for _, t := range s.Tmpfs {
		if t.Bytes <= 0 {
			return fmt.Errorf("sandbox: tmpfs at %s has no size", t.Target)
		}
		targets = append(targets, t.Target)
	}
	if err := mounts.CheckTargets(s.WorkspaceDir, targets); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// isPersonal says whether the container is made for one session from the start, so that none can wait in the pool.
func (s Spec) isPersonal() bool {
	for _, v := range s.Volumes {
		if !v.Shared {
			return true
		}
	}
	return false
}

// furniture is what a container finds in places of its own besides the workspace.
type furniture struct {
	m     *Manager
	spec  Spec
	owner owner
	held  []*mounts.Source // in the order of spec.Mounts
}

// place makes sure of everything and adds it to the order. What it holds is let go by release.
func (f *furniture) place(ctx context.Context, o *order) error {
	if err := f.move(ctx, o); err != nil {
		return err
	}
	if err := f.holdSources(ctx); err != nil {
		return err
	}
	for i, h := range f.spec.Mounts {
		o.hello.Mounts = append(o.hello.Mounts, []byte(h.Target))
		o.container.Mounts = append(o.container.Mounts,
			Mount{Source: f.held[i].Path, Target: h.Target, ReadOnly: !h.Writable, Alone: true})
	}
	for _, v := range f.spec.Volumes {
		session := o.container.Labels[LabelSession]
		if v.Shared {
			session = ""
		}
		name, err := f.m.volumes.provide(ctx, volume{name: v.Name, session: session}, f.spec.Image, f.owner)
		if err != nil {
			return err
		}
		o.container.Mounts = append(o.container.Mounts, Mount{Kind: Volume, Source: name, Target: v.Target, ReadOnly: v.ReadOnly})
	}
	for _, t := range f.spec.Tmpfs {
		o.container.Mounts = append(o.container.Mounts, Mount{Kind: Memory, Target: t.Target, Bytes: t.Bytes})
	}
	return nil
}

// holdSources applies the rules of this moment to the host's folders and files.
func (f *furniture) holdSources(ctx context.Context) error {
	if len(f.spec.Mounts) == 0 {
		return nil
	}
	rules, err := f.m.mountRules(ctx)
	if err != nil {
		return err
	}
	for _, h := range f.spec.Mounts {
		held, err := rules.Open(h.Source)
		if err != nil {
			return fmt.Errorf("sandbox: may not mount %w", err)
		}
		f.held = append(f.held, held)
	}
	return nil
}

func (f *furniture) release() {
	for _, s := range f.held {
		s.Close()
	}
	f.held = nil
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
// source can be swapped for a link by whoever may write to a folder above it: then this refuses the container before a
// command has run in it. It cannot tell where the engine runs on another kernel (a virtual machine on the same desk).
func (f *furniture) verify(w frame.WelcomeBody) error {
	if len(w.Mounts) != len(f.held) {
		return errors.New("it does not say what is mounted")
	}
	here, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(here) == 0 || string(bytes.TrimSpace(here)) != w.BootID {
		return nil
	}
	for i, s := range f.held {
		if found := (mounts.ID{Dev: w.Mounts[i].Dev, Ino: w.Mounts[i].Ino}); found != s.ID() {
			return fmt.Errorf("at %s something else is mounted than %s: it was swapped meanwhile", f.spec.Mounts[i].Target, s.Path)
		}
	}
	return nil
}
