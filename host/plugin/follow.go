package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/plugin/kind"
)

// ErrNoInstance means that no instance has that name.
var ErrNoInstance = errors.New("there is no plugin instance of that name")

// follow applies changes of the lock to the instances until ctx ends: removed and disabled plugins stop, enabled ones start, and a new
// version is tried. It watches the file, so that the commands of flynn plugin have the same effect whether they can reach the running host
// or not.
func (h *Host) follow(ctx context.Context) {
	tick := time.NewTicker(h.timeouts.lockEvery)
	defer tick.Stop()
	var seen fs.FileInfo
	var before lockFile
	for {
		info, err := os.Stat(h.store.lock.Path)
		if err == nil && (seen == nil || !os.SameFile(seen, info) || info.ModTime() != seen.ModTime() || info.Size() != seen.Size()) {
			if l, err := h.store.lock.Read(); err != nil {
				h.log.Error("cannot read the lock of the plugins; nothing changes", "error", err)
			} else {
				h.comply(ctx, before, l)
				before = l
			}
			seen = info
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// comply applies a changed lock.
func (h *Host) comply(ctx context.Context, before, now lockFile) {
	used := h.byPlugin()
	for name, all := range used {
		was, existed := before.choice(name)
		c, exists := now.choice(name)
		for _, sup := range all {
			installed := exists && (!existed || now.replaced(before, c, was))
			if installed && sup.snapshot().State == Quarantined || existed && (!exists || c.Disabled != was.Disabled) {
				sup.restart()
			}
		}
	}
	for _, c := range now.Plugins {
		if ctx.Err() != nil {
			return
		}
		switch {
		case c.Disabled || h.config.DevPaths[c.Name] != "":
		case c.Next != "":
			h.upgrade(ctx, c, c.Next)
		case len(used[c.Name]) == 0:
			h.forget(c.Name)
		case h.versionOf(c.Name) != c.Active:
			h.upgrade(ctx, c, c.Active)
		}
	}
}

// replaced reports whether the active version of a plugin was removed and installed again, which may happen between two looks at the lock.
func (l lockFile) replaced(before lockFile, c, was Choice) bool {
	r, _ := l.release(c.Name, c.Active)
	old, known := before.release(was.Name, was.Active)
	return known && c.Active == was.Active && !r.Installed.Equal(old.Installed)
}

func (h *Host) byPlugin() map[string][]*supervisor {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string][]*supervisor{}
	for _, name := range slices.Sorted(maps.Keys(h.supervisors)) {
		sup := h.supervisors[name]
		if h.config.DevPaths[sup.instance.Plugin] == "" {
			out[sup.instance.Plugin] = append(out[sup.instance.Plugin], sup)
		}
	}
	return out
}

// versionOf is the version that the instances of a plugin run. The first call makes it the active one.
func (h *Host) versionOf(name string) string {
	l, err := h.store.lock.Read()
	if err != nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := l.release(name, h.running[name]); !ok {
		if c, ok := l.choice(name); ok {
			h.running[name] = c.Active
		}
	}
	return h.running[name]
}

// forget makes the next instance of a plugin start with the version that is active then.
func (h *Host) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, name)
}

// upgrade moves the instances of a plugin to another version, one after the other, or leaves all of them at their version, and records the
// outcome in the lock.
func (h *Host) upgrade(ctx context.Context, c Choice, version string) {
	running := h.versionOf(c.Name)
	log := h.log.With("plugin", c.Name, "from", running, "to", version)
	log.Info("trying a plugin version")
	all := h.byPlugin()[c.Name]
	failure := h.try(ctx, all, c.Name, version)
	if ctx.Err() != nil {
		return // the host is stopping; the next start tries again
	}
	if err := h.store.settle(c.Name, version, running, failure); err != nil {
		log.Error("cannot record the outcome of an upgrade in the lock", "error", err)
	}
	if failure != nil {
		log.Error("plugin version is rejected", "error", failure)
	} else {
		h.mu.Lock()
		h.running[c.Name] = version
		h.mu.Unlock()
		log.Info("plugin version is active")
	}
	for _, sup := range all {
		sup.unpin()
	}
}

// try verifies a version, starts it once without secrets, and moves all instances to it. After an error all of them run the old version.
func (h *Host) try(ctx context.Context, all []*supervisor, name, version string) error {
	p, err := h.store.loadVersion(name, version)
	if err != nil {
		return err
	}
	defer p.close()
	for _, sup := range all {
		if err := h.fits(p, sup.instance); err != nil {
			return err
		}
	}
	if err := h.rehearse(ctx, p); err != nil {
		return fmt.Errorf("version %s: %w", version, err)
	}
	running := h.versionOf(name)
	beside := !p.manifest.alone() && !h.aloneNow(name, running)
	for i, sup := range all {
		if err := sup.try(ctx, version, beside); err != nil {
			for _, moved := range all[:i] {
				if back := moved.try(ctx, running, beside); back != nil {
					moved.log.Error("cannot roll back to the previous version", "version", running, "error", back)
				}
			}
			return err
		}
	}
	return nil
}

// aloneNow reports whether the running version has to be the only process of its instance, as far as it can be read.
func (h *Host) aloneNow(name, running string) bool {
	p, err := h.store.loadVersion(name, running)
	if err != nil {
		return false
	}
	defer p.close()
	return p.manifest.alone()
}

// alone reports whether two processes of one instance must not run at the same time: the platform allows one connection, or they would
// share a folder, a route, or the key to the host's services.
func (m *Manifest) alone() bool {
	for _, o := range m.Options {
		if o.Alone() {
			return true
		}
	}
	return m.Permissions.State || len(m.Permissions.Host) > 0
}

// lease returns the lease that an instance of the plugin needs; nil if it is this host's alone, or several hosts may run it.
func (m *Manifest) lease(i Instance) kind.Lease {
	if o := m.Options[i.Kind]; o == nil || o.Shared() {
		return nil
	}
	if a, is := m.Options[i.Kind].(kind.Apart); i.Lease == nil || is && a.Apart(i.Settings) {
		return i.Lease
	}
	return whole{i.Lease}
}

// whole is the lease of an instance that sends only while it may receive.
type whole struct{ kind.Lease }

// Sending implements kind.Lease.
func (w whole) Sending() time.Duration { return w.Left() }

// rehearsal bounds the shutdown after a rehearsal.
const rehearsal = 2 * time.Second

// rehearse starts a process without settings, secrets and state, and calls Describe.
func (h *Host) rehearse(ctx context.Context, p *pack) error {
	sup := newSupervisor(h, Instance{Name: p.manifest.Name, Plugin: p.manifest.Name, Kind: p.manifest.Kinds[0]}, nil, &recent{})
	started, err := h.startProcess(ctx, sup, p, launchSpec{beside: true, bare: true})
	if err != nil {
		return err
	}
	defer started.kill()
	if err := started.describe(ctx); err != nil {
		return sup.because(ctx, started, fmt.Errorf("describe: %w", err))
	}
	end, cancel := context.WithTimeout(ctx, rehearsal)
	defer cancel()
	started.shutdown(end)
	return nil
}
