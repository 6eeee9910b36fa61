package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install"
)

// lockFile is plugins.lock: the plugins that may run, by digest. Only this file expresses the operator's consent.
type lockFile struct {
	Format   int      `toml:"lock"` // 2
	Plugins  []Choice `toml:"plugin"`
	Releases []Locked `toml:"release"`
}

// Choice says which of a plugin's installed versions runs, if any.
type Choice struct {
	Name   string `toml:"name" json:"name"`
	Active string `toml:"active" json:"active"`
	// Next is a version for a running host to try; it becomes Active if its trial succeeds, or Rejected.
	Next string `toml:"next,omitempty" json:"next,omitempty"`
	// Previous are the versions that were active before, latest first, to which a rollback returns.
	Previous []string `toml:"previous,omitempty" json:"previous,omitempty"`
	// Disabled plugins never start.
	Disabled bool        `toml:"disabled,omitempty" json:"disabled,omitempty"`
	Rejected []Rejection `toml:"rejected,omitempty" json:"rejected,omitempty"`
}

// Rejection is a version whose trial by a running host failed.
type Rejection struct {
	Version string    `toml:"version" json:"version"`
	Why     string    `toml:"why" json:"why"`
	At      time.Time `toml:"at" json:"at"`
}

// Locked is one installed version of a plugin.
type Locked struct {
	Name    string `toml:"name" json:"name"`
	Version string `toml:"version" json:"version"`
	// Platforms are the platforms of the release's programs, or "any".
	Platforms []string  `toml:"platforms,omitempty" json:"platforms,omitempty"`
	Source    string    `toml:"source" json:"source"` // folder, archive or URL that it was installed from
	Installed time.Time `toml:"installed" json:"installed"`
	// Signer is the key whose signature was checked; empty for an unsigned version.
	Signer string `toml:"signer,omitempty" json:"signer,omitempty"`
	// FirstParty is the stamp of the build for a plugin that came with Flynn, see firstparty.Shelf; empty for one that a person installed.
	FirstParty string `toml:"first_party,omitempty" json:"first_party,omitempty"`
	// Network and Host are the permissions that the operator saw.
	Network []string `toml:"network,omitempty" json:"network,omitempty"`
	Host    []string `toml:"host,omitempty" json:"host,omitempty"`
	// Files maps each file of each platform, slash-separated, to its SHA-256 in lower-case hex.
	Files map[string]string `toml:"files" json:"files"`
	// Platform is set for a version from a lock of format 1, which had a single one.
	Platform string `toml:"platform,omitempty" json:"platform,omitempty"`
}

// anyPlatform is the folder of a version that holds all its platforms, and the key in exec of a command for all.
const anyPlatform = "any"

// dir is the path of the version below the store.
func (l Locked) dir() string { return path.Join(l.Name, l.Version, cmp.Or(l.Platform, anyPlatform)) }

const (
	lockFormat  = 2
	keptBefore  = 2 // versions before the active one that are kept for a rollback
	maxRejected = 5 // rejections that the lock keeps for one plugin
)

// parseLock reads plugins.lock as strictly as plugin.toml.
func parseLock(text []byte) (lockFile, error) {
	var head struct {
		Format int `toml:"lock"`
	}
	if _, err := toml.Decode(string(text), &head); err != nil {
		return lockFile{}, fmt.Errorf("%s: %w", lockName, err)
	}
	var l lockFile
	var err error
	switch head.Format {
	case 1:
		l, err = parseFirstLock(text)
	case lockFormat:
		err = install.Decode(lockName, text, &l)
	default:
		return lockFile{}, fmt.Errorf("%s: lock is %d, this host reads 1 and %d", lockName, head.Format, lockFormat)
	}
	return l, errors.Join(err, l.problems())
}

// parseFirstLock reads format 1, which has one version of each plugin, for one platform.
func parseFirstLock(text []byte) (lockFile, error) {
	var first struct {
		Format  int      `toml:"lock"`
		Plugins []Locked `toml:"plugin"`
	}
	err := install.Decode(lockName, text, &first)
	l := lockFile{Format: lockFormat, Releases: first.Plugins}
	for _, p := range first.Plugins {
		l.Plugins = append(l.Plugins, Choice{Name: p.Name, Active: p.Version})
		if p.Platform == "" {
			err = errors.Join(err, fmt.Errorf("%s: plugin %q has no platform", lockName, p.Name))
		}
	}
	return l, err
}

// problems names every error in l.
func (l lockFile) problems() error {
	var wrong []error
	names, versions := map[string]bool{}, map[string]bool{}
	for _, r := range l.Releases {
		id := r.Name + " " + r.Version
		if versions[id] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %s is there twice", lockName, id))
		}
		versions[id] = true
		wrong = append(wrong, r.problems()...)
	}
	for _, c := range l.Plugins {
		if names[c.Name] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %q is there twice", lockName, c.Name))
		}
		names[c.Name] = true
		for _, v := range c.versions() {
			if !versions[c.Name+" "+v] {
				wrong = append(wrong, fmt.Errorf("%s: plugin %q has no version %q", lockName, c.Name, v))
			}
		}
	}
	for _, r := range l.Releases {
		if !names[r.Name] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %q has no active version", lockName, r.Name))
		}
	}
	return errors.Join(wrong...)
}

// versions are the versions that c refers to, the active one first.
func (c Choice) versions() []string {
	out := append([]string{c.Active}, c.Previous...)
	if c.Next != "" {
		out = append(out, c.Next)
	}
	return out
}

func (l Locked) problems() []error {
	var out []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Errorf(lockName+": plugin %q: "+format, append([]any{l.Name}, args...)...))
		}
	}
	check(validPlugin().MatchString(l.Name), "that is not a plugin's name")
	check(exactSemver(l.Version), "version %q is not an exact version", l.Version)
	for _, p := range append(l.Platforms, cmp.Or(l.Platform, anyPlatform)) {
		check(validName().MatchString(p), "%q is not a platform", p)
	}
	for _, err := range install.Problems(l.Files, ManifestName) {
		check(false, "%w", err)
	}
	return out
}

// Encode returns the text of plugins.lock.
func (l lockFile) Encode() ([]byte, error) {
	l.Format = lockFormat
	slices.SortFunc(l.Plugins, func(a, b Choice) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Releases, func(a, b Locked) int {
		return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version)
	})
	return install.Encode("Written by flynn plugin. Only plugins in this file may run.", l)
}

// choice returns the Choice of a plugin.
func (l lockFile) choice(name string) (Choice, bool) {
	i := slices.IndexFunc(l.Plugins, func(c Choice) bool { return c.Name == name })
	if i < 0 {
		return Choice{}, false
	}
	return l.Plugins[i], true
}

// release returns one version of a plugin.
func (l lockFile) release(name, version string) (Locked, bool) {
	i := slices.IndexFunc(l.Releases, func(r Locked) bool { return r.Name == name && r.Version == version })
	if i < 0 {
		return Locked{}, false
	}
	return l.Releases[i], true
}

// find returns the active version of a plugin.
func (l lockFile) find(name string) (Locked, bool) {
	c, ok := l.choice(name)
	if !ok {
		return Locked{}, false
	}
	return l.release(name, c.Active)
}

// withRelease returns l with r instead of an earlier record of that version.
func (l lockFile) withRelease(r Locked) lockFile {
	l.Releases = append(slices.DeleteFunc(slices.Clone(l.Releases), func(o Locked) bool {
		return o.Name == r.Name && o.Version == r.Version
	}), r)
	return l
}

// with returns l with c instead of the plugin's earlier choice.
func (l lockFile) with(c Choice) lockFile {
	l.Plugins = append(slices.DeleteFunc(slices.Clone(l.Plugins), func(o Choice) bool { return o.Name == c.Name }), c)
	return l
}

// activate makes version the active one, and keeps the one before.
func (c Choice) activate(version string) Choice {
	if c.Active != version && c.Active != "" {
		c.Previous = slices.DeleteFunc(append([]string{c.Active}, c.Previous...), func(v string) bool { return v == version })
		c.Previous = c.Previous[:min(len(c.Previous), keptBefore)]
	}
	c.Active, c.Next = version, ""
	c.Rejected = slices.DeleteFunc(slices.Clone(c.Rejected), func(r Rejection) bool { return r.Version == version })
	return c
}

// reject records the failure of a version, and makes the running one active again.
func (c Choice) reject(version, running, why string, at time.Time) Choice {
	if c.Active == version {
		c.Active = running
		c.Previous = slices.DeleteFunc(slices.Clone(c.Previous), func(v string) bool { return v == running })
	}
	if c.Next == version {
		c.Next = ""
	}
	c.Rejected = slices.DeleteFunc(slices.Clone(c.Rejected), func(r Rejection) bool { return r.Version == version })
	c.Rejected = append([]Rejection{{version, why, at.UTC().Truncate(time.Second)}}, c.Rejected...)
	c.Rejected = c.Rejected[:min(len(c.Rejected), maxRejected)]
	return c
}

// prune removes the versions of a plugin that nothing refers to, and returns them.
func (l lockFile) prune(name string) (lockFile, []Locked) {
	c, _ := l.choice(name)
	var kept, gone []Locked
	for _, r := range l.Releases {
		if r.Name == name && !slices.Contains(c.versions(), r.Version) {
			gone = append(gone, r)
		} else {
			kept = append(kept, r)
		}
	}
	l.Releases = kept
	return l, gone
}

func (l lockFile) without(name string) lockFile {
	l.Plugins = slices.DeleteFunc(slices.Clone(l.Plugins), func(c Choice) bool { return c.Name == name })
	l.Releases = slices.DeleteFunc(slices.Clone(l.Releases), func(r Locked) bool { return r.Name == name })
	return l
}
