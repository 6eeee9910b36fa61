package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

const (
	// reconcileEvery, and up to a fifth more so that many hosts do not fall into step.
	reconcileEvery = 5 * time.Minute
	// reconcileSoon after a start, and then at growing intervals, for what the engine was still making for the process before.
	reconcileSoon = 2 * time.Second
	// removals is how many things are removed at a time.
	removals = 4
)

// Reconcile takes over what an earlier run of this instance left for it: containers with background processes within their
// lease. What else nobody owns it removes. Call it before the first Get; Run calls it again and again. What
// other instances own is never touched, whatever its age, nor what another living process of this one does.
func (m *Manager) Reconcile(ctx context.Context) error { _, err := m.tidy(ctx, m.adoptAll); return err }

// Prune removes what earlier runs left, also what a host could have taken over, and returns the containers.
func (m *Manager) Prune(ctx context.Context) ([]driver.Owned, error) {
	return m.tidy(ctx, func(context.Context, []driver.Owned, map[string]bool) {})
}

// tidy lists what the instance has, lets adopt take over what it can, and removes the rest.
func (m *Manager) tidy(ctx context.Context, adopt func(context.Context, []driver.Owned, map[string]bool)) ([]driver.Owned, error) {
	select {
	case m.tidying <- struct{}{}:
		defer func() { <-m.tidying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	alive, err := m.host.Others()
	if err != nil {
		return nil, fmt.Errorf("look for other processes: %w", err)
	}
	owned, err := m.config.Driver.List(ctx, m.config.Instance)
	if err != nil {
		return nil, err
	}
	owned = m.ours(owned)
	adopt(ctx, owned, alive)
	left, err := m.removeLeftovers(ctx, owned, alive)
	return left, errors.Join(err, m.removeExpired(ctx), m.clearEphemeral(ctx, alive), m.clearOwners(owned), m.clearFolders(alive))
}

// ours are the instance's own: never trust a filter with somebody else's work.
func (m *Manager) ours(listed []driver.Owned) []driver.Owned {
	var own []driver.Owned
	for _, o := range listed {
		if o.Labels[driver.LabelInstance] == m.config.Instance {
			own = append(own, o)
		}
	}
	return own
}

// isOfACopy reports whether a container is one of a copy of this instance, as far as that can be told. Of those nobody knows
// here whether they are in use, before they have long been to be replaced.
func (m *Manager) isOfACopy(c driver.Owned) bool {
	place := c.Labels[driver.LabelPlace]
	return place != "" && place != m.host.Place() && !expired(c.Labels, time.Now().Add(-m.config.MaxAge))
}

// removeLeftovers removes the containers that no living process has.
func (m *Manager) removeLeftovers(ctx context.Context, owned []driver.Owned, alive map[string]bool) ([]driver.Owned, error) {
	var left []driver.Owned
	for _, c := range owned {
		if m.isOfACopy(c) {
			m.doubled.Do(func() {
				m.log.Warn("another host has this one's name; its sandboxes are left alone. If one store is a copy of the other, remove the file instance in one of them",
					"instance", m.config.Instance, "container", c.ID)
			})
			continue
		}
		if !m.holds(c.Labels[driver.LabelKey]) && !alive[c.Labels[driver.LabelHost]] {
			left = append(left, c)
		}
	}
	return left, each(left, func(c driver.Owned) error {
		m.log.Info("removing a leftover sandbox", "container", c.ID, "session", c.Labels[driver.LabelSession])
		return m.config.Driver.Remove(ctx, c.ID)
	})
}

// each does the same for all, some at a time.
func each[T any](all []T, do func(T) error) error {
	var running sync.WaitGroup
	slots := make(chan struct{}, removals)
	errs := make([]error, len(all))
	for i, one := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(one)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// namelessFor is how long an image has been without a name when no build is about to give it one any more: a host that was
// killed has left it, or a newer one has taken its name while it was in use.
const namelessFor = time.Hour

// isNameless reports whether an image has been without a name for so long. Only those that are finished carry the labels.
func isNameless(o driver.Owned) bool {
	return o.Name == "" && !o.Created.IsZero() && time.Since(o.Created) > namelessFor
}

// removeExpired removes volumes, networks and images whose time has passed. What is in use the engine does not let go; it
// is tried again the next time.
func (m *Manager) removeExpired(ctx context.Context) error {
	var all error
	for _, kind := range m.kinds() {
		listed, err := kind.list(ctx, m.config.Instance)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("list %ss: %w", kind.name, err))
			continue
		}
		for _, o := range m.ours(listed) {
			if !expired(o.Labels, time.Now()) && (kind.spent == nil || !kind.spent(o)) {
				continue
			}
			if err := kind.remove(ctx, o); err != nil {
				m.log.Debug("expired containers are still in use", "kind", kind.name, "name", o.Name, "error", err)
				continue
			}
			m.log.Info("removed expired containers", "kind", kind.name, "name", o.Name)
		}
	}
	return all
}

// kind is something besides containers that the driver makes.
type kind struct {
	name   string
	list   func(ctx context.Context, instance string) ([]driver.Owned, error)
	remove func(ctx context.Context, o driver.Owned) error
	spent  func(o driver.Owned) bool // or nil: of no use although its time has not passed
}

func (m *Manager) kinds() []kind {
	var all []kind
	if d, ok := m.config.Driver.(driver.Volumes); ok {
		all = append(all, kind{"volume", d.ListVolumes, func(ctx context.Context, o driver.Owned) error { return d.RemoveVolume(ctx, o.Name) }, nil})
	}
	if d, ok := m.config.Driver.(driver.Networks); ok {
		all = append(all, kind{"network", d.ListNetworks, func(ctx context.Context, o driver.Owned) error { return d.RemoveNetwork(ctx, o.ID) }, nil})
	}
	if d, ok := m.config.Driver.(driver.Images); ok {
		all = append(all, kind{"image", d.ListImages, func(ctx context.Context, o driver.Owned) error { return d.RemoveImage(ctx, cmp.Or(o.Name, o.ID)) }, isNameless})
	}
	return all
}

// expired reports whether a label names a time that has passed. What has no such label, or one that nobody can read, stays.
func expired(labels map[string]string, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, labels[driver.LabelExpires])
	return err == nil && now.After(until)
}

// clearFolders drops the control sockets, slots and records that no living process has.
func (m *Manager) clearFolders(alive map[string]bool) error {
	var all error
	folders, err := filepath.Glob(filepath.Join(m.run, controlPrefix+"*"))
	all = errors.Join(all, err)
	for _, folder := range folders {
		owner, key, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), controlPrefix), "-")
		if !alive[owner] && !m.holds(key) {
			all = errors.Join(all, os.RemoveAll(folder))
		}
	}
	calls, err := filepath.Glob(filepath.Join(m.run, hostCallPrefix+"*"))
	all = errors.Join(all, err)
	for _, folder := range calls {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), hostCallPrefix), "-")
		if owner != m.host.ID() && !alive[owner] {
			all = errors.Join(all, removeall.Folder(folder))
		}
	}
	return errors.Join(all, m.workspaces.ClearSlots(alive), m.proxyCAs.Clear(alive, time.Now()), m.clearRecords(alive))
}

func (m *Manager) clearRecords(alive map[string]bool) error {
	keys, all := recordKeys(m.run)
	for _, key := range keys {
		if r, err := readRecord(m.run, key); !m.holds(key) && (err != nil || !alive[r.Host]) {
			if err := os.Remove(recordPath(m.run, key)); !errors.Is(err, fs.ErrNotExist) { // its sandbox may end just now
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// keepTidy reconciles soon and then again and again.
func (m *Manager) keepTidy(ctx context.Context) {
	pause := reconcileSoon
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if err := m.Reconcile(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("cannot clean up sandboxes; trying again", "error", err)
		}
		if pause *= 4; pause > reconcileEvery {
			pause = reconcileEvery + rand.N(reconcileEvery/5)
		}
	}
}
