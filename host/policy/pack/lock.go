package pack

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/install"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/install/signing"
)

// lockFile is policies.lock: the policies that may come into force, by digest. Only this file expresses the operator's consent.
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
	// FirstParty is the stamp of the build for a policy that comes with Flynn, see firstparty.Shelf; empty for one that a person installed.
	FirstParty string `toml:"first_party,omitempty" json:"first_party,omitempty"`
	Module     string `toml:"module" json:"module"` // its file
	// Files maps each file, slash-separated, to its SHA-256 in lower-case hex.
	Files map[string]string `toml:"files" json:"files"`
}

const (
	lockName   = "policies.lock"
	lockFormat = 1
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`) })

// parseLock reads policies.lock.
func parseLock(text []byte) (lockFile, error) {
	var l lockFile
	wrong := []error{install.Decode(lockName, text, &l)}
	if wrong[0] == nil && l.Format != lockFormat {
		wrong = append(wrong, fmt.Errorf("%s: lock is %d, this flynn reads %d", lockName, l.Format, lockFormat))
	}
	seen := map[string]bool{}
	for _, p := range l.Policies {
		if seen[p.Name] {
			wrong = append(wrong, fmt.Errorf("%s: policy %q is duplicate", lockName, p.Name))
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
	check(nameForm().MatchString(l.Name) && len(l.Name) <= 100, "invalid name")
	check(exactVersion(l.Version), "version %q is not an exact version", l.Version)
	check(digest.Valid(l.Digest), "digest %q is not a SHA-256", l.Digest)
	check(l.Source == "" || digest.Valid(l.Source), "source_digest %q is not a SHA-256", l.Source)
	check(l.FirstParty == "" || digest.Valid(l.FirstParty), "first_party %q is not a SHA-256", l.FirstParty)
	check(path.Ext(l.Module) == ".wasm" && l.Files[l.Module] == l.Digest, "its module %q does not have its digest", l.Module)
	if l.Key != "" {
		_, err := signing.ParseKey(string(l.Key))
		check(err == nil, "%v", err)
	}
	for _, err := range install.Problems(l.Files, manifestName) {
		check(false, "%w", err)
	}
	return out
}

// folder returns the policy's folder below the store, which depends on its contents.
func (l Locked) folder() string {
	return path.Join(l.Name, digest.Of(folder.Sums(l.Files))[:32])
}

// Encode returns the text of policies.lock.
func (l lockFile) Encode() ([]byte, error) {
	l.Format = lockFormat
	slices.SortFunc(l.Policies, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
	return install.Encode("Written by flynn policy install. Only what stands here may come into force by its name.", l)
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
