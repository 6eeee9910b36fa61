// Package upgrade reports whether there is a newer release of Flynn, and what it would mean for a store, its plugins and its policies.
//
// Start with Check. The package asks one address, when it is called and at no other time, and changes nothing.
package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/mod/semver"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/fetch"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/store/database"
)

// Latest is the address of the index of the latest release.
const Latest = "https://github.com/flynnhost/flynn/releases/latest/download/" + IndexName

// IndexName is the file of a release that describes it.
const IndexName = "release.json"

const (
	maxIndex = 1 << 20 // bytes
	patience = 30 * time.Second
)

// Index describes a release. A later one may have further keys.
type Index struct {
	Version  string            `json:"version"` // "v1.2.3"
	Commit   string            `json:"commit"`
	Date     time.Time         `json:"date"`
	Page     string            `json:"page"`     // the address of its notes and files
	Schema   int               `json:"schema"`   // the version of the store that it writes
	Postgres int               `json:"postgres"` // the same of a store in Postgres
	Protocol int               `json:"protocol"` // the version of the plugin contract that it speaks
	Plugins  map[string]string `json:"plugins"`  // versions by name
	Policies map[string]string `json:"policies"`
}

// Report is the answer of Check.
type Report struct {
	Running  buildinfo.Info `json:"running"`
	Latest   Index          `json:"latest"`
	Newer    bool           `json:"newer"` // Latest is newer than Running, or Running is not from a release
	Store    Store          `json:"store"`
	Plugins  []Part         `json:"plugins"`
	Policies []Part         `json:"policies"`
}

// Store says what a release would do with the store.
type Store struct {
	Dir      string `json:"dir"`
	Database string `json:"database,omitempty"`   // the variable that names a Postgres database
	Schema   int    `json:"schema"`               // 0 if no host has run yet
	Writer   string `json:"written_by,omitempty"` // the version of Flynn that has written it last, if that is recorded
}

// Outcome is what becomes of a plugin or policy.
type Outcome string

// The outcomes.
const (
	Replaced Outcome = "replaced" // it comes with Flynn, and with the release as well
	Stays    Outcome = "stays"    // a person has installed it
	Refused  Outcome = "refused"  // a person has installed it, and the release does not speak its contract
	Gone     Outcome = "gone"     // it comes with Flynn, but not with the release
)

// Part is a plugin or policy that is in use.
type Part struct {
	Name    string  `json:"name"`
	Version string  `json:"version,omitempty"`
	Next    string  `json:"next,omitempty"` // the version after an upgrade
	Outcome Outcome `json:"outcome"`
}

// Check asks for the index at an address, and compares it with the running program and with what a configuration uses. A nil configuration
// uses nothing.
func Check(ctx context.Context, from string, c *config.Config) (r Report, err error) {
	r.Running, r.Plugins, r.Policies = buildinfo.Get(), []Part{}, []Part{}
	if r.Latest, err = Fetch(ctx, from); err != nil {
		return r, err
	}
	r.Newer = !semver.IsValid(r.Running.Version) || semver.Compare(r.Latest.Version, r.Running.Version) > 0
	if c == nil {
		return r, nil
	}
	at := database.At(c.Store.Location())
	s, err := at.Stamp(ctx)
	if err != nil {
		return r, err
	}
	r.Store = Store{Dir: c.Store.Dir, Database: at.Variable, Schema: s.Schema, Writer: s.Writer}
	if r.Plugins, err = plugins(c, r.Latest); err != nil {
		return r, err
	}
	r.Policies, err = policies(c, r.Latest)
	return r, err
}

// Fetch reads the index at an address.
func Fetch(ctx context.Context, from string) (i Index, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	at, err := fetch.Parse(from, "https", "http")
	if err != nil {
		return i, fmt.Errorf("read the index of releases: %w", err)
	}
	var text bytes.Buffer
	if err := (fetch.Client{Private: true, Proxy: true}).Get(ctx, at, &text, maxIndex); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return i, fmt.Errorf("read the index of releases at %s: %w", at, err)
	}
	if err := json.Unmarshal(text.Bytes(), &i); err != nil {
		return i, fmt.Errorf("read the index of releases at %s: it is not one: %w", at, err)
	}
	if !semver.IsValid(i.Version) || i.Schema < 1 || i.Protocol < 1 {
		return i, fmt.Errorf("read the index of releases at %s: it is not one: version %.40q, schema %d, protocol %d", at, i.Version, i.Schema, i.Protocol)
	}
	return i, nil
}

// plugins returns what becomes of the plugins in the lock.
func plugins(c *config.Config, next Index) ([]Part, error) {
	store, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	parts := []Part{}
	for _, l := range list {
		p := part(l.Name, l.Version, l.FirstParty != "", next.Plugins)
		if p.Outcome == Stays {
			m, err := store.Manifest(l.Name)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(m.Protocols, next.Protocol) {
				p.Next, p.Outcome = "", Refused
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// policies returns what becomes of the policies that the configuration gives by name.
func policies(c *config.Config, next Index) ([]Part, error) {
	installed, err := configured.Store(c).List()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	own := map[string]string{}
	for _, l := range installed {
		own[l.Name] = l.Version
	}
	parts := []Part{}
	for _, p := range c.Policies {
		if p.Policy != "" && !slices.ContainsFunc(parts, func(q Part) bool { return q.Name == p.Policy }) {
			version, is := own[p.Policy]
			parts = append(parts, part(p.Policy, version, !is, next.Policies))
		}
	}
	return parts, nil
}

func part(name, version string, ships bool, next map[string]string) Part {
	if !ships {
		return Part{name, version, version, Stays}
	}
	if after, ok := next[name]; ok {
		return Part{name, version, after, Replaced}
	}
	return Part{name, version, "", Gone}
}
