package plugin

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/install/firstparty"
)

// Record is everything that the lock holds about one plugin.
type Record struct {
	Choice
	Releases []Locked `json:"releases"` // the active one first
}

// ActiveRelease is the version that runs.
func (r Record) ActiveRelease() Locked { return r.Releases[0] }

// Records returns the records of all plugins, by name.
func (s *Store) Records() ([]Record, error) {
	l, err := s.lock.Read()
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	out := make([]Record, 0, len(l.Plugins))
	for _, c := range l.Plugins {
		out = append(out, l.record(c))
	}
	return out, nil
}

func (l lockFile) record(c Choice) Record {
	r := Record{Choice: c}
	for _, v := range c.versions() {
		if release, ok := l.release(c.Name, v); ok && !slices.ContainsFunc(r.Releases, func(o Locked) bool { return o.Version == v }) {
			r.Releases = append(r.Releases, release)
		}
	}
	return r
}

// Record returns the record of one plugin. That of a plugin which comes with Flynn and is not in the lock yet has no active version.
func (s *Store) Record(name string) (Record, error) {
	l, err := s.lock.Read()
	if err != nil {
		return Record{}, err
	}
	c, ok := l.choice(name)
	if !ok && l.awaits(s.shelf(), name) {
		m, err := s.shelvedManifest(name)
		release := Locked{Name: name, Version: m.Version, Source: s.shelf().Origin(firstparty.Plugins, name)}
		return Record{Choice: Choice{Name: name}, Releases: []Locked{release}}, err
	}
	if !ok {
		return Record{}, s.notInstalled(l, name)
	}
	return l.record(c), nil
}

// edit changes the Choice of one plugin.
func (s *Store) edit(name string, change func(Choice) (Choice, error)) error {
	var gone []Locked
	err := s.lock.Change(func(l lockFile) (lockFile, error) {
		c, ok := l.choice(name)
		if !ok {
			return l, s.notInstalled(l, name)
		}
		c, err := change(c)
		if err != nil {
			return l, err
		}
		l, gone = l.with(c).prune(name)
		return l, nil
	})
	if err == nil {
		s.discard(gone)
	}
	return err
}

// SetDisabled switches a plugin off, or on again. A disabled plugin never starts.
func (s *Store) SetDisabled(name string, disabled bool) error {
	return s.edit(name, func(c Choice) (Choice, error) {
		c.Disabled = disabled
		return c, nil
	})
}

// Activate makes an installed version the active one.
func (s *Store) Activate(name, version string) error {
	return s.edit(name, func(c Choice) (Choice, error) {
		if !slices.Contains(c.versions(), version) {
			return c, fmt.Errorf("plugin %s has no version %s installed", name, version)
		}
		return c.activate(version), nil
	})
}

// Propose makes an installed version the next one for a running host to try. An earlier rejection of it is removed.
func (s *Store) Propose(name, version string) error {
	return s.edit(name, func(c Choice) (Choice, error) {
		if !slices.Contains(c.versions(), version) {
			return c, fmt.Errorf("plugin %s has no version %s installed", name, version)
		}
		c.Rejected = slices.DeleteFunc(slices.Clone(c.Rejected), func(r Rejection) bool { return r.Version == version })
		c.Next = version
		if c.Next == c.Active {
			c.Next = ""
		}
		return c, nil
	})
}

// RollbackTarget is the version before the active one.
func (r Record) RollbackTarget() (string, error) {
	if len(r.Previous) == 0 {
		return "", fmt.Errorf("roll back %s: no version before %s is installed", r.Name, r.Active)
	}
	return r.Previous[0], nil
}

// errGone means that a version was removed during its trial.
var errGone = errors.New("the version was removed while it was tried")

// settle records the end of a trial: without a failure the version becomes active, with one it is rejected.
func (s *Store) settle(name, version, running string, failure error) error {
	return s.edit(name, func(c Choice) (Choice, error) {
		switch {
		case !slices.Contains(c.versions(), version):
			return c, errGone
		case failure == nil && c.Active == version:
			return c, nil
		case failure == nil:
			return c.activate(version), nil
		}
		return c.reject(version, running, failure.Error(), time.Now()), nil
	})
}
