package pack

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install/signing"
)

// lockFile is policies.lock: what may come into force, by digest. It is the operator's consent, and the only thing that gives it.
type lockFile struct {
	Format   int      `toml:"lock"` // 1
	Policies []Locked `toml:"policy"`
}

// Locked is one installed policy.
type Locked struct {
	Name    string   `toml:"name" json:"name"`
	Version string   `toml:"version" json:"version"`
	Kinds   []string `toml:"kinds" json:"kinds"`
	Digest  string   `toml:"digest" json:"digest"` // SHA-256 of the module
	Source  string   `toml:"source_digest,omitempty" json:"source_digest,omitempty"`
	Key     Key      `toml:"key,omitempty" json:"key,omitempty"` // whose signature was checked
	From    string   `toml:"from" json:"from"`                   // where it was installed from
	Module  string   `toml:"module" json:"module"`               // its file
	// Files maps each file, slash-separated, to its SHA-256 in lower-case hex.
	Files map[string]string `toml:"files" json:"files"`
}

const (
	lockName = "policies.lock"
	maxLock  = 4 << 20 // bytes
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`) })

// parseLock reads policies.lock strictly: what it names becomes paths.
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
		wrong = append(wrong, fmt.Errorf("%s: lock is %d, this flynn reads 1", lockName, l.Format))
	}
	seen := map[string]bool{}
	for _, p := range l.Policies {
		if seen[p.Name] {
			wrong = append(wrong, fmt.Errorf("%s: policy %q stands there twice", lockName, p.Name))
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
			out = append(out, fmt.Errorf(lockName+": policy %q: "+format, append([]any{l.Name}, args...)...))
		}
	}
	check(nameForm().MatchString(l.Name) && len(l.Name) <= 100, "that is no policy's name")
	check(exactVersion(l.Version), "version %q is no exact version", l.Version)
	check(isDigest(l.Digest), "digest %q is no SHA-256", l.Digest)
	check(l.Source == "" || isDigest(l.Source), "source_digest %q is no SHA-256", l.Source)
	check(path.Ext(l.Module) == ".wasm" && l.Files[l.Module] == l.Digest, "its module %q does not have its digest", l.Module)
	check(l.Files[manifestName] != "", "it has no %s", manifestName)
	if l.Key != "" {
		_, err := signing.ParseKey(string(l.Key))
		check(err == nil, "%v", err)
	}
	for name, digest := range l.Files {
		check(localName(name), "%q is no name of a file inside", name)
		check(isDigest(digest), "digest of %q is no SHA-256", name)
	}
	return out
}

// folder is where the policy lies below the store, a name that its contents decide.
func (l Locked) folder() string {
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l.Files)) {
		fmt.Fprintf(&sums, "%s  %s\n", l.Files[name], name)
	}
	return path.Join(l.Name, digestOf([]byte(sums.String()))[:32])
}

func (l lockFile) encode() ([]byte, error) {
	slices.SortFunc(l.Policies, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	out.WriteString("# Written by flynn policy install. Only what stands here may come into force by its name.\n")
	err := toml.NewEncoder(&out).Encode(l)
	return out.Bytes(), err
}

// find returns the policy called name.
func (l lockFile) find(name string) (Locked, bool) {
	i := slices.IndexFunc(l.Policies, func(p Locked) bool { return p.Name == name })
	if i < 0 {
		return Locked{}, false
	}
	return l.Policies[i], true
}

func (l lockFile) without(name string) lockFile {
	l.Policies = slices.DeleteFunc(slices.Clone(l.Policies), func(p Locked) bool { return p.Name == name })
	return l
}

// with returns l with p in place of an earlier policy of that name.
func (l lockFile) with(p Locked) lockFile {
	l = l.without(p.Name)
	l.Policies = append(l.Policies, p)
	return l
}
