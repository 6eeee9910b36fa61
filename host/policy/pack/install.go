package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Install puts a package into the store and into the lock, in place of another version, after its module could be loaded and its
// cases have passed. from is recorded as its origin. An older version, or an unsigned one in place of a signed one, is refused unless
// downgrade is set.
func (s *Store) Install(ctx context.Context, p *Package, from string, downgrade bool) (l Locked, known bool, err error) {
	m := p.Manifest
	defer func() {
		if err != nil {
			err = fmt.Errorf("install policy %s %s: %w", m.Name, m.Version, err)
		}
	}()
	key, err := s.trust.Check(p.Signer)
	if err != nil {
		return l, false, err
	}
	return s.put(p, Locked{Key: key, From: from}, func(module string) error { return prove(ctx, p, module) },
		func(old, next Locked) error { return succeeds(old, next, downgrade) })
}

// Provide puts a policy that comes with Flynn into the store and into the lock, in place of an earlier build. dir is its folder, stamp that of
// the build, and from where it comes from. A policy that a person has installed under its name is not replaced.
func (s *Store) Provide(dir, stamp, from string) error {
	p, err := Open(dir)
	if err == nil {
		_, _, err = s.put(p, Locked{From: from, FirstParty: stamp}, func(string) error { return nil }, func(old, _ Locked) error {
			if old.FirstParty == "" {
				return errors.New("somebody has just installed another policy of that name")
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("put the policy in %s into %s: %w", dir, lockName, err)
	}
	return nil
}

// put puts a package into the store and into the lock. l is what the package does not say itself, check looks at its module, and replace
// at the policy whose place it takes.
func (s *Store) put(p *Package, l Locked, check func(module string) error, replace func(old, next Locked) error) (_ Locked, known bool, err error) {
	m := p.Manifest
	v, err := s.versions.Stage()
	if err != nil {
		return l, false, err
	}
	defer func() { err = errors.Join(err, v.Discard()) }()
	for _, name := range p.names() {
		if err := v.Write(name, false, bytes.NewReader(p.files[name])); err != nil {
			return l, false, err
		}
	}
	if err := check(filepath.Join(v.Dir(), filepath.FromSlash(m.Build.Output))); err != nil {
		return l, false, err
	}
	l.Name, l.Version, l.Kinds, l.Digest, l.Source, l.Module, l.Files = m.Name, m.Version, m.Kinds, m.Digest, m.Source, m.Build.Output, v.Files()
	var replaced Locked
	err = s.lock.Change(func(lock lockFile) (lockFile, error) {
		old, ok := lock.find(m.Name)
		if ok {
			if err := replace(old, l); err != nil {
				return lock, err
			}
			replaced = old
		}
		known, err = v.Place(l.folder())
		return lock.with(l), err
	})
	if err == nil && replaced.Name != "" && replaced.folder() != l.folder() {
		err = s.versions.Remove(replaced.folder())
	}
	return l, known, err
}

// succeeds reports whether one policy may take the place of another.
func succeeds(old, next Locked, downgrade bool) error {
	if old.FirstParty != "" {
		return nil // a person's own takes the place of the one that comes with Flynn
	}
	switch order := semver.Compare("v"+next.Version, "v"+old.Version); {
	case order == 0 && next.folder() != old.folder():
		return errors.New("this version is installed with other contents: raise the version, or run flynn policy remove")
	case downgrade:
		return nil
	case order < 0:
		return fmt.Errorf("version %s is installed, which is newer: use --allow-downgrade to replace it", old.Version)
	case old.Key != "" && next.Key == "":
		return fmt.Errorf("version %s is installed with a signature of %s, and this one has no trusted signature: "+
			"use --allow-downgrade to replace it", old.Version, old.Key)
	}
	return nil
}

// prove loads the module and runs the cases of the package.
func prove(ctx context.Context, p *Package, path string) error {
	l := p.Manifest.Limits
	m, err := policy.Open(ctx, policy.Source{Name: p.Manifest.Name, Path: path, Kinds: p.Manifest.Kinds, Data: p.Manifest.Data, Limits: l.Policy()})
	if err != nil {
		return err
	}
	if err := m.Close(); err != nil {
		return err
	}
	return author.Prove(ctx, path, p.Module, "")
}
