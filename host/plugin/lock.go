package plugin

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install"
)

// lockFile is plugins.lock: what may run, by digest. It is the operator's consent, and the only thing that gives it.
type lockFile struct {
	Format   int      `toml:"lock"` // 2
	Plugins  []Choice `toml:"plugin"`
	Releases []Locked `toml:"release"`
}

// Choice says which of a plugin's installed versions runs, if any.
type Choice struct {
	Name   string `toml:"name" json:"name"`
	Active string `toml:"active" json:"active"`
	// Next is a version that a running host is to try; it becomes Active when it has proved itself, or Rejected.
	Next string `toml:"next,omitempty" json:"next,omitempty"`
	// Previous are the versions that were active before, latest first: where a rollback goes.
	Previous []string `toml:"previous,omitempty" json:"previous,omitempty"`
	// Disabled plugins never start.
	Disabled bool        `toml:"disabled,omitempty" json:"disabled,omitempty"`
	Rejected []Rejection `toml:"rejected,omitempty" json:"rejected,omitempty"`
}

// Rejection is a version that a running host tried and gave up, for the one before.
type Rejection struct {
	Version string    `toml:"version" json:"version"`
	Why     string    `toml:"why" json:"why"`
	At      time.Time `toml:"at" json:"at"`
}

// Locked is one installed version of a plugin.
type Locked struct {
	Name    string `toml:"name" json:"name"`
	Version string `toml:"version" json:"version"`
	// Platforms are those that the release has programs for; "any" is one of them.
	Platforms []string  `toml:"platforms,omitempty" json:"platforms,omitempty"`
	Source    string    `toml:"source" json:"source"` // folder, archive or URL that it was installed from
	Installed time.Time `toml:"installed" json:"installed"`
	// Signer is the key whose signature was checked; empty for a version that nobody vouches for.
	Signer string `toml:"signer,omitempty" json:"signer,omitempty"`
	// Network and Host are the permissions that the operator saw.
	Network []string `toml:"network,omitempty" json:"network,omitempty"`
	Host    []string `toml:"host,omitempty" json:"host,omitempty"`
	// Files maps each file of each platform, slash-separated, to its SHA-256 in lower-case hex.
	Files map[string]string `toml:"files" json:"files"`
	// Platform is set for what was installed by a lock of format 1, which held one.
	Platform string `toml:"platform,omitempty" json:"platform,omitempty"`
}

// anyPlatform is the folder of a version that holds all its platforms, and the key in exec of a command for all.
const anyPlatform = "any"

// dir is where the version lies below the store.
func (l Locked) dir() string {
	if l.Platform != "" {
		return path.Join(l.Name, l.Version, l.Platform)
	}
	return path.Join(l.Name, l.Version, anyPlatform)
}

const (
	lockFormat  = 2
	keptBefore  = 2 // versions before the active one that a rollback can reach
	maxRejected = 5 // that the lock remembers for one plugin
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

// parseFirstLock reads format 1, which knew one version of each plugin, for one platform.
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

// problems names everything in l that makes no sense.
func (l lockFile) problems() error {
	var wrong []error
	names, versions := map[string]bool{}, map[string]bool{}
	for _, r := range l.Releases {
		id := r.Name + " " + r.Version
		if versions[id] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %s stands there twice", lockName, id))
		}
		versions[id] = true
		wrong = append(wrong, r.problems()...)
	}
	for _, c := range l.Plugins {
		if names[c.Name] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %q stands there twice", lockName, c.Name))
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
			wrong = append(wrong, fmt.Errorf("%s: plugin %q has a version and none that is active", lockName, r.Name))
		}
	}
	return errors.Join(wrong...)
}

// versions are those that c refers to, the active one first.
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
	check(validPlugin().MatchString(l.Name), "that is no plugin's name")
	check(exactSemver(l.Version), "version %q is no exact version", l.Version)
	check(l.Platform == "" || validName().MatchString(l.Platform), "platform %q is none", l.Platform)
	for _, p := range l.Platforms {
		check(validName().MatchString(p), "platform %q is none", p)
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
	return install.Encode("Written by flynn plugin. Only what stands here may run.", l)
}

// choice returns what was chosen for the plugin called name.
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

// find returns the active version of the plugin called name.
func (l lockFile) find(name string) (Locked, bool) {
	c, ok := l.choice(name)
	if !ok {
		return Locked{}, false
	}
	return l.release(name, c.Active)
}

// withRelease returns l with r in place of an earlier record of that version.
func (l lockFile) withRelease(r Locked) lockFile {
	l.Releases = append(slices.DeleteFunc(slices.Clone(l.Releases), func(o Locked) bool {
		return o.Name == r.Name && o.Version == r.Version
	}), r)
	return l
}

// with returns l with c in place of what was chosen before.
func (l lockFile) with(c Choice) lockFile {
	l.Plugins = append(slices.DeleteFunc(slices.Clone(l.Plugins), func(o Choice) bool { return o.Name == c.Name }), c)
	return l
}

// activate makes version the one that runs, and remembers the one before.
func (c Choice) activate(version string) Choice {
	if c.Active != version && c.Active != "" {
		c.Previous = slices.DeleteFunc(append([]string{c.Active}, c.Previous...), func(v string) bool { return v == version })
		c.Previous = c.Previous[:min(len(c.Previous), keptBefore)]
	}
	c.Active, c.Next = version, ""
	c.Rejected = slices.DeleteFunc(slices.Clone(c.Rejected), func(r Rejection) bool { return r.Version == version })
	return c
}

// reject notes that version failed, and goes back to the one that ran before it.
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

// prune drops the versions of name that nothing refers to, and returns them.
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
