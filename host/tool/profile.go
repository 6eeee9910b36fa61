package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
)

// The tool profiles, from narrow to wide. Full stands for every registered tool.
const (
	Minimal   = "minimal"
	Messaging = "messaging"
	Coding    = "coding"
	Full      = "full"
)

// profileTools is the whole definition of the profiles: each one adds its tools to the previous one's.
// The Spec of a provider's tool names its profiles.
func profileTools(profile string) (names []string, ok bool) {
	steps := []struct {
		profile string
		adds    []string
	}{
		{Minimal, []string{"memory.search", "memory.read", ReadResult}},
		{Messaging, []string{"memory.write", "memory.forget", "web.fetch", config.WebSearch}},
		{Coding, []string{
			"file.read", "file.write", "file.edit", "file.list",
			"shell.exec",
			"process.start", "process.list", "process.output", "process.kill",
			"message.attach",
		}},
	}
	for _, s := range steps {
		names = append(names, s.adds...)
		if s.profile == profile {
			return names, true
		}
	}
	return nil, false
}

// Profiles lists the profile names, narrow to wide.
func Profiles() []string { return []string{Minimal, Messaging, Coding, Full} }

// Overrides extend or narrow a profile. An entry is a tool's name, or a family
// such as "file.*". Deny wins over everything.
type Overrides struct {
	Allow []string
	Deny  []string
}

// Set is a set of tool names.
type Set map[string]bool

// NewSet returns the set of the names.
func NewSet(names ...string) Set {
	s := make(Set, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// Has reports whether the set holds the name.
func (s Set) Has(name string) bool { return s[name] }

// Names returns the members, sorted.
func (s Set) Names() []string {
	names := make([]string, 0, len(s))
	for n, in := range s {
		if in {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// Intersect returns the members of both sets.
func (s Set) Intersect(other Set) Set {
	both := Set{}
	for n, in := range s {
		if in && other[n] {
			both[n] = true
		}
	}
	return both
}

// Offered returns the registered tools of a profile with overrides: the profile and the
// allowed tools, without the denied ones. UnknownNames finds overrides that match no tool.
func (r *Registry) Offered(profile string, o Overrides) (Set, error) {
	names, known := profileTools(profile)
	if !known && profile != Full {
		return nil, fmt.Errorf("tool profile %q is none of %s", profile, strings.Join(Profiles(), ", "))
	}
	offered := Set{}
	for _, spec := range r.List() {
		in := profile == Full || slices.Contains(names, spec.Name)
		if spec.Provider != "" {
			in = slices.Contains(spec.Profiles, profile)
		}
		in = in || matchesAny(o.Allow, spec.Name)
		if in && !matchesAny(o.Deny, spec.Name) {
			offered[spec.Name] = true
		}
	}
	return offered, nil
}

// UnknownNames returns the overrides that match no registered tool, each once, in order. They are
// errors of a configuration: a misspelt deny would silently leave a tool open.
func (r *Registry) UnknownNames(o Overrides) []string {
	specs := r.List()
	var unknown []string
	for _, pattern := range slices.Concat(o.Allow, o.Deny) {
		fits := slices.ContainsFunc(specs, func(s Spec) bool { return matches(pattern, s.Name) })
		if !fits && !slices.Contains(unknown, pattern) {
			unknown = append(unknown, pattern)
		}
	}
	return unknown
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	if family, ok := strings.CutSuffix(pattern, ".*"); ok {
		return strings.HasPrefix(name, family+".")
	}
	return pattern == name
}
