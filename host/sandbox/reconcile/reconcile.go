// Package reconcile handles what earlier processes of an instance have left on the engine and in the instance's folder: it adopts the
// containers whose lease is valid, and removes what no living process holds.
//
// Start with Reconciler.Reconcile, then tidy, which both Reconcile and Prune use; adopt.go adopts a container. It never touches what
// belongs to other instances, whatever its age, or to another living process of this instance (package liveness).
//
// It creates no containers, and does not end those of sessions.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/reaper"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/wssync"
)

// Config configures a Reconciler.
type Config struct {
	launch.Installation
	ProxyCAs *proxyca.Store
	Launcher Launcher
	Sessions Sessions
	// Current returns the specification of a sandbox by name. If it is nil, a container is adopted with the specification that it was made
	// with.
	Current func(name string) (spec.Spec, bool)
}

// Launcher returns a Container for one that an earlier process has left; *launch.Launcher implements it.
type Launcher interface {
	// CheckMounts returns why the current rules refuse what a specification mounts, or nil.
	CheckMounts(ctx context.Context, s spec.Spec) error
	Regain(ctx context.Context, conn driver.Stream, reader *frame.Reader, r container.Record, o *container.Ownership, entries []frame.KeptEntry) (*container.Container, error)
}

// Sessions are the sessions of this process.
type Sessions interface {
	// Adopt gives a session the container of a record. It reports false if the session has another one already.
	Adopt(r container.Record, c *container.Container) bool
	// TakeOver gives a session the container of a record in the registry, if this host can own its conversation.
	TakeOver(ctx context.Context, r container.Record) error
	// Forget ends a session's containers and removes its own volumes.
	Forget(ctx context.Context, session message.WorkspaceKey) error
}

// Reconciler handles what earlier processes have left. Its methods are safe for concurrent use.
type Reconciler struct {
	config  Config
	log     *slog.Logger
	tidying chan struct{} // holds a token while a reconciliation runs
	look    chan struct{} // buffered
	doubled sync.Once     // for the warning that another host has the instance's name
}

// New returns a Reconciler. It does not contact the engine.
func New(c Config) *Reconciler {
	return &Reconciler{config: c, log: c.Log, tidying: make(chan struct{}, 1), look: make(chan struct{}, 1)}
}

// HostCallPrefix begins the name of the folder of a bridged call that runs on this machine, followed by the name of the process and a
// random part.
const HostCallPrefix = "hostcall-"

const (
	// reconcileEvery is the interval of reconciliations; up to a fifth is added, so that many hosts do not run in step.
	reconcileEvery = 5 * time.Minute
	// reconcileSoon is the delay after a start, and then grows, for containers that the engine was still creating for the previous process.
	reconcileSoon = 2 * time.Second
)

// Reconcile adopts the containers with background processes that an earlier process has left within their lease, and removes everything
// else that nobody holds.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	_, err := r.tidy(ctx, r.adoptAll, r.registered)
	return err
}

// Prune removes what earlier processes left, including what could be adopted, and returns the containers. It leaves those with the keys in
// others, which other hosts have.
func (r *Reconciler) Prune(ctx context.Context, others map[string]bool) ([]driver.Owned, error) {
	return r.tidy(ctx, func(context.Context, []driver.Owned, map[string]bool) {}, func(context.Context) (map[string]bool, error) { return others, nil })
}

// tidy lists what the instance has, lets adopt adopt what it can, and removes the rest, except what is registered then.
func (r *Reconciler) tidy(
	ctx context.Context, adopt func(context.Context, []driver.Owned, map[string]bool), registered func(context.Context) (map[string]bool, error),
) ([]driver.Owned, error) {
	select {
	case r.tidying <- struct{}{}:
		defer func() { <-r.tidying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	alive, err := r.config.Host.Others()
	if err != nil {
		return nil, fmt.Errorf("look for other processes: %w", err)
	}
	owned, err := r.config.Driver.List(ctx, r.config.Instance)
	if err != nil {
		return nil, err
	}
	owned = driver.OwnedBy(r.config.Instance, owned)
	adopt(ctx, owned, alive)
	kept, err := registered(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for the sandboxes that other hosts have: %w", err)
	}
	left, err := r.removeLeftovers(ctx, owned, alive, kept)
	return left, errors.Join(err, r.removeExpired(ctx), r.clearEphemeral(ctx, alive), r.clearOwners(owned), r.clearFolders(alive, kept))
}

// registered returns the keys of the containers that are in the registry: a host has them or may take them.
func (r *Reconciler) registered(ctx context.Context) (map[string]bool, error) {
	if r.config.Registry == nil {
		return nil, nil
	}
	all, err := r.config.Registry.List(ctx, "")
	kept := make(map[string]bool, len(all))
	for _, left := range all {
		kept[left.Key] = true
	}
	return kept, err
}

// isOfACopy reports whether a container seems to belong to a copy of this instance. It cannot be known here whether such a container is in
// use, until it has expired for long.
func (r *Reconciler) isOfACopy(c driver.Owned) bool {
	place := c.Labels[driver.LabelPlace]
	return place != "" && place != r.config.Host.Place() && !expired(c.Labels, time.Now().Add(-r.config.MaxAge))
}

// isAdopted reports whether another living process has adopted a container, whose labels still name the one that made it.
func (r *Reconciler) isAdopted(key string, alive map[string]bool) bool {
	left, err := container.ReadRecord(r.config.Run, key)
	return err == nil && alive[left.Owner]
}

// removeLeftovers removes the containers that no living process holds, and that are not kept.
func (r *Reconciler) removeLeftovers(ctx context.Context, owned []driver.Owned, alive, kept map[string]bool) ([]driver.Owned, error) {
	var left []driver.Owned
	for _, c := range owned {
		if r.isOfACopy(c) {
			r.doubled.Do(func() {
				r.log.Warn("another host has the same instance name; leaving its sandboxes alone. If one store is a copy of the other, remove the file instance in one of them",
					"instance", r.config.Instance, "container", c.ID)
			})
			continue
		}
		if key := c.Labels[driver.LabelKey]; !kept[key] && !r.config.Keys.Holds(key) && !alive[c.Labels[driver.LabelHost]] && !r.isAdopted(key, alive) {
			left = append(left, c)
		}
	}
	return left, reaper.Each(left, func(c driver.Owned) error {
		r.log.Info("removing a leftover sandbox", "container", c.ID, "session", c.Labels[driver.LabelSession])
		return r.config.Driver.Remove(ctx, c.ID)
	})
}

// namelessFor is the age after which an untagged image will not be tagged by a running build: a killed host has left it, or a newer image
// has taken its name while it was in use.
const namelessFor = time.Hour

// isNameless reports whether an image has been untagged for that long. Only finished images carry the labels.
func isNameless(o driver.Owned) bool {
	return o.Name == "" && !o.Created.IsZero() && time.Since(o.Created) > namelessFor
}

// removeExpired removes expired volumes and images. The engine keeps those that are in use; they are tried again the next time.
func (r *Reconciler) removeExpired(ctx context.Context) error {
	var all error
	for _, kind := range r.kinds() {
		listed, err := kind.list(ctx, r.config.Instance)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("list %ss: %w", kind.name, err))
			continue
		}
		for _, o := range driver.OwnedBy(r.config.Instance, listed) {
			if !expired(o.Labels, time.Now()) && (kind.spent == nil || !kind.spent(o)) {
				continue
			}
			if err := kind.remove(ctx, o); err != nil {
				r.log.Debug("something expired is still in use", "kind", kind.name, "name", o.Name, "error", err)
				continue
			}
			r.log.Info("removed something expired", "kind", kind.name, "name", o.Name)
		}
	}
	return all
}

// kind is a kind of object besides containers that the driver creates.
type kind struct {
	name   string
	list   func(ctx context.Context, instance string) ([]driver.Owned, error)
	remove func(ctx context.Context, o driver.Owned) error
	spent  func(o driver.Owned) bool // may be nil: useless although not expired
}

func (r *Reconciler) kinds() []kind {
	var all []kind
	if d, ok := r.config.Driver.(driver.Volumes); ok {
		all = append(all, kind{"volume", d.ListVolumes, func(ctx context.Context, o driver.Owned) error { return d.RemoveVolume(ctx, o.Name) }, nil})
	}
	if d, ok := r.config.Driver.(driver.Images); ok {
		all = append(all, kind{"image", d.ListImages, func(ctx context.Context, o driver.Owned) error { return d.RemoveImage(ctx, cmp.Or(o.Name, o.ID)) }, isNameless})
	}
	return all
}

// expired reports whether a label contains a time that has passed. An object without a valid label does not expire.
func expired(labels map[string]string, now time.Time) bool {
	until, err := time.Parse(time.RFC3339, labels[driver.LabelExpires])
	return err == nil && now.After(until)
}

// clearFolders removes the control sockets, slots and records of dead processes.
func (r *Reconciler) clearFolders(alive, kept map[string]bool) error {
	var all error
	folders, err := filepath.Glob(filepath.Join(r.config.Run, container.ControlPrefix+"*"))
	all = errors.Join(all, err)
	for _, folder := range folders {
		owner, key, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), container.ControlPrefix), "-")
		if !alive[owner] && !r.config.Keys.Holds(key) && !r.isAdopted(key, alive) {
			all = errors.Join(all, os.RemoveAll(folder))
		}
	}
	calls, err := filepath.Glob(filepath.Join(r.config.Run, HostCallPrefix+"*"))
	all = errors.Join(all, err)
	for _, folder := range calls {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), HostCallPrefix), "-")
		if owner != r.config.Host.ID() && !alive[owner] {
			all = errors.Join(all, removeall.Folder(folder))
		}
	}
	return errors.Join(all, r.config.Workspaces.ClearSlots(alive), r.config.ProxyCAs.Clear(alive, time.Now()), r.clearRecords(alive), r.clearDisks(kept))
}

// clearDisks removes what is known of the disks of containers that nobody can adopt any more.
func (r *Reconciler) clearDisks(kept map[string]bool) error {
	states, all := filepath.Glob(filepath.Join(r.config.Run, wssync.OwnPrefix+"*"))
	for _, state := range states {
		key := strings.TrimPrefix(filepath.Base(state), wssync.OwnPrefix)
		if _, err := os.Stat(container.RecordPath(r.config.Run, key)); errors.Is(err, fs.ErrNotExist) && !kept[key] && !r.config.Keys.Holds(key) {
			all = errors.Join(all, os.Remove(state))
		}
	}
	return all
}

func (r *Reconciler) clearRecords(alive map[string]bool) error {
	keys, all := container.RecordKeys(r.config.Run)
	for _, key := range keys {
		if left, err := container.ReadRecord(r.config.Run, key); !r.config.Keys.Holds(key) && (err != nil || !alive[left.Owner]) {
			if err := os.Remove(container.RecordPath(r.config.Run, key)); !errors.Is(err, fs.ErrNotExist) { // its sandbox may be ending at the moment
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// LookSoon has Run take over what other hosts have left.
func (r *Reconciler) LookSoon() {
	select {
	case r.look <- struct{}{}:
	default:
	}
}

// Run reconciles soon, and then repeatedly until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	pause := reconcileSoon
	for next := time.After(pause); ; next = time.After(pause) {
		for waiting := true; waiting; {
			select {
			case <-next:
				waiting = false
			case <-r.look:
				if r.config.Registry != nil {
					r.takeAll(ctx)
				}
			case <-ctx.Done():
				return
			}
		}
		if err := r.Reconcile(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot clean up sandboxes; trying again", "error", err)
		}
		if pause *= 4; pause > reconcileEvery {
			pause = reconcileEvery + rand.N(reconcileEvery/5)
		}
	}
}
