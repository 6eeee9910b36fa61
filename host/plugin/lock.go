package plugin

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// lockFile is plugins.lock: what may run, by digest. It is the operator's consent, and the only thing that gives it.
type lockFile struct {
	Format  int      `toml:"lock"` // 1
	Plugins []Locked `toml:"plugin"`
}

// Locked is one installed plugin.
type Locked struct {
	Name      string    `toml:"name" json:"name"`
	Version   string    `toml:"version" json:"version"`
	Platform  string    `toml:"platform" json:"platform"`
	Source    string    `toml:"source" json:"source"` // folder that it was installed from
	Installed time.Time `toml:"installed" json:"installed"`
	// Network and Host are the permissions that the operator saw.
	Network []string `toml:"network,omitempty" json:"network,omitempty"`
	Host    []string `toml:"host,omitempty" json:"host,omitempty"`
	// Files maps each file, slash-separated, to its SHA-256 in lower-case hex.
	Files map[string]string `toml:"files" json:"files"`
}

// dir is where the plugin lies below the store.
func (l Locked) dir() string { return path.Join(l.Name, l.Version, l.Platform) }

const maxLock = 16 << 20 // bytes

// parseLock reads plugins.lock as strictly as plugin.toml: what it names becomes paths.
func parseLock(text []byte) (lockFile, error) {
	if len(text) > maxLock {
		return lockFile{}, fmt.Errorf("%s has %d bytes, at most %d", lockName, len(text), maxLock)
	}
	var l lockFile
	meta, err := toml.Decode(string(text), &l)
	if err != nil {
		return lockFile{}, fmt.Errorf("%s: %w", lockName, err)
	}
	var wrong []error
	for _, key := range meta.Undecoded() {
		wrong = append(wrong, fmt.Errorf("%s: unknown key %s", lockName, key))
	}
	if l.Format != 1 {
		wrong = append(wrong, fmt.Errorf("%s: lock is %d, this host reads 1", lockName, l.Format))
	}
	seen := map[string]bool{}
	for _, p := range l.Plugins {
		if seen[p.Name] {
			wrong = append(wrong, fmt.Errorf("%s: plugin %q stands there twice", lockName, p.Name))
		}
		seen[p.Name] = true
		wrong = append(wrong, p.problems()...)
	}
	return l, errors.Join(wrong...)
}

func (l Locked) problems() []error {
	var out []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Errorf(lockName+": plugin %q: "+format, append([]any{l.Name}, args...)...))
		}
	}
	check(validPlugin.MatchString(l.Name), "that is no plugin's name")
	check(exactSemver(l.Version), "version %q is no exact version", l.Version)
	check(validName.MatchString(l.Platform), "platform %q is none", l.Platform)
	check(l.Files[ManifestName] != "", "it has no %s", ManifestName)
	for file, digest := range l.Files {
		raw, err := hex.DecodeString(digest)
		check(err == nil && len(raw) == 32 && strings.ToLower(digest) == digest, "digest of %q is no SHA-256", file)
		check(localFile(file), "%q is not a file of the plugin", file)
	}
	return out
}

func (l lockFile) encode() ([]byte, error) {
	slices.SortFunc(l.Plugins, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	out.WriteString("# Written by flynn plugin install. Only what stands here may run.\n")
	err := toml.NewEncoder(&out).Encode(l)
	return out.Bytes(), err
}

// find returns the plugin called name.
func (l lockFile) find(name string) (Locked, bool) {
	i := slices.IndexFunc(l.Plugins, func(p Locked) bool { return p.Name == name })
	if i < 0 {
		return Locked{}, false
	}
	return l.Plugins[i], true
}

// with returns l with p in place of an earlier plugin of that name.
func (l lockFile) with(p Locked) lockFile {
	l = l.without(p.Name)
	l.Plugins = append(l.Plugins, p)
	return l
}

func (l lockFile) without(name string) lockFile {
	l.Plugins = slices.DeleteFunc(slices.Clone(l.Plugins), func(p Locked) bool { return p.Name == name })
	return l
}
