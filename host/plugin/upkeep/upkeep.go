// Package upkeep does what an operator does with installed plugins under a configuration: install, upgrade, roll back, enable, disable and
// remove them, and refuse versions that would not accept the settings of the instances in flynn.toml.
//
// Start with Upkeep, which the commands and the gateway use. Package plugin has the store and its lock, and tries a proposed version in a
// running host. The package prints nothing and starts no process.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// Upkeep works on one store.
type Upkeep struct {
	Store *plugin.Store
	// Config is the configuration that uses the plugins; nil for a store by itself.
	Config *config.Config
	// Running reports whether a host runs on the store, which tries a version before it becomes the active one.
	Running bool
	// Private accepts URLs that lead to this machine or its network.
	Private bool
	// Log says what is built.
	Log *slog.Logger
}

// ErrUsed is the error of a removal of a plugin that an instance uses.
var ErrUsed = errors.New("it is used")

// Move is the result of an upgrade or a rollback.
type Move struct {
	Name    string `json:"name"`
	From    string `json:"from"`
	Version string `json:"version"`
	Running bool   `json:"running"` // a running flynn has tried it
}

// Install installs a plugin from a folder, an archive or a URL.
func (u Upkeep) Install(ctx context.Context, from string) (plugin.Installed, error) {
	return u.Store.InstallFrom(ctx, from, u.obtain())
}

// obtain returns how a plugin is fetched and checked: the keys to trust, and the settings that it must accept.
func (u Upkeep) obtain() plugin.Obtain {
	o := plugin.Obtain{Client: fetch.Client{Private: u.Private}}
	o.Trust.Table = "[plugin_trust]"
	if c := u.Config; c != nil {
		o.Trust = instances.Trust(c)
		o.Accept = func(m plugin.Manifest, s *plugin.Settings) error {
			return againstSettings(instances.CheckSettings(c, m.Name, s), m.Name, m.Version)
		}
	}
	return o
}

// againstSettings returns the error for a version of a plugin that does not accept the settings of its configured instances.
func againstSettings(wrong config.Errors, name, version string) error {
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("plugin %s %s does not accept its settings in flynn.toml; correct them, then do the same again:\n%v", name, version, wrong)
}

// fits checks the configuration against the settings of an installed version.
func (u Upkeep) fits(name, version string) error {
	if u.Config == nil {
		return nil
	}
	s, err := u.Store.Settings(name, version)
	if err != nil {
		return err
	}
	return againstSettings(instances.CheckSettings(u.Config, name, s), name, version)
}

// Upgrade moves a plugin to the version of a source.
func (u Upkeep) Upgrade(ctx context.Context, name, from string) (Move, error) {
	before, err := u.Store.Record(name)
	if err != nil {
		return Move{}, err
	}
	o := u.obtain()
	o.Beside, o.Name = true, name
	p, err := u.Store.InstallFrom(ctx, from, o)
	if err != nil {
		return Move{}, err
	}
	return u.move(ctx, before, p.Version)
}

// Rollback moves a plugin to the version before the active one.
func (u Upkeep) Rollback(ctx context.Context, name string) (Move, error) {
	before, err := u.Store.Record(name)
	if err != nil {
		return Move{}, err
	}
	version, err := before.RollbackTarget()
	if err != nil {
		return Move{}, err
	}
	if err := u.fits(name, version); err != nil {
		return Move{}, err
	}
	return u.move(ctx, before, version)
}

// ErrTried is returned by Take while the running host tries the version.
var ErrTried = errors.New("this host is trying it")

// Rejected is the error of Take for a version that the running host has tried, and that has failed.
type Rejected string

func (r Rejected) Error() string { return "it was tried here and rejected: " + string(r) }

// Take moves a plugin to a version of another host, as Install and Upgrade would, but does not wait for the trial. source is recorded as the
// origin.
func (u Upkeep) Take(name, version, source string, files plugin.Files) error {
	r, err := u.Store.Record(name)
	there := err == nil && r.Active != ""
	if there {
		if r.Next == version {
			return ErrTried
		}
		for _, j := range r.Rejected {
			if j.Version == version {
				return Rejected(j.Why)
			}
		}
	}
	beside := there && u.Running && !r.Disabled
	if !slices.ContainsFunc(r.Releases, func(l plugin.Locked) bool {
		return l.Version == version && l.FirstParty == "" && maps.Equal(l.Files, files.Digests)
	}) {
		o := u.obtain()
		o.Name, o.Source, o.Beside = name, source, beside
		_, err = u.Store.InstallFiles(files, o.Options)
	} else if err = u.fits(name, version); err == nil && beside {
		err = u.Store.Propose(name, version)
	} else if err == nil {
		err = u.Store.Activate(name, version)
	}
	if err == nil && beside {
		err = ErrTried
	}
	return err
}

// move makes a version the active one: at once if no flynn runs, else after a trial by the running one.
func (u Upkeep) move(ctx context.Context, before plugin.Record, version string) (Move, error) {
	done := Move{Name: before.Name, From: before.Active, Version: version, Running: u.Running}
	var err error
	switch {
	case version == before.Active:
		return done, fmt.Errorf("plugin %s runs in version %s already", before.Name, version)
	case u.Running && !before.Disabled:
		if err = u.Store.Propose(before.Name, version); err == nil {
			err = u.awaitTrial(ctx, before.Name, version)
		}
	default:
		err = u.Store.Activate(before.Name, version)
	}
	return done, err
}

const (
	trialTime = 3 * time.Minute
	trialPoll = 100 * time.Millisecond
)

// awaitTrial waits until a running flynn has accepted or rejected a version.
func (u Upkeep) awaitTrial(ctx context.Context, name, version string) error {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	for {
		r, err := u.Store.Record(name)
		switch {
		case err != nil:
			return err
		case r.Next == version:
		case r.Active == version:
			return nil
		case len(r.Rejected) > 0 && r.Rejected[0].Version == version:
			return fmt.Errorf("plugin %s stays at %s, which keeps running: %s: correct that, then do the same again", name, r.Active, r.Rejected[0].Why)
		default:
			return fmt.Errorf("plugin %s stays at %s: the upgrade was called off", name, r.Active)
		}
		select {
		case <-time.After(trialPoll):
		case <-ctx.Done():
			return fmt.Errorf("plugin %s: the running flynn has not tried version %s: see its log", name, version)
		}
	}
}

// SetDisabled switches a plugin off, or on again.
func (u Upkeep) SetDisabled(ctx context.Context, name string, disabled bool) error {
	if !disabled {
		r, err := u.Store.Record(name)
		if err != nil {
			return err
		}
		if err := u.fits(name, r.Active); err != nil {
			return err
		}
	}
	if err := u.Store.Provide(ctx, u.Log, name); err != nil { // one that comes with flynn and was not used yet
		return err
	}
	return u.Store.SetDisabled(name, disabled)
}

// Remove deletes a plugin. One that an instance uses is kept, unless force is true.
func (u Upkeep) Remove(name string, force bool) error {
	if u.Config != nil && !force {
		if uses := u.Uses(name); len(uses) > 0 {
			return fmt.Errorf("remove plugin %s: [%s] uses it: set enabled = false there, or force it: %w", name, uses[0], ErrUsed)
		}
	}
	return u.Store.Remove(name)
}

// Uses returns the tables of the enabled instances that use a plugin, such as channels.telegram.
func (u Upkeep) Uses(name string) (tables []string) {
	if u.Config == nil {
		return nil
	}
	for _, i := range instances.Of(u.Config, name) {
		tables = append(tables, plugin.AllKinds().Get(i.Kind).Section()+"."+i.Name)
	}
	slices.Sort(tables)
	return tables
}
