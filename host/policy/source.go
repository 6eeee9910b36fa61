package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Source is one policy of the chain, as configured.
type Source struct {
	Name  string
	Path  string            // of the Wasm module
	Kinds []string          // KindRoute, KindTool or both
	Data  map[string]string // for the import data
	// Limits of one decision; the zero value of each means its default.
	Limits Limits
	// OnErrorAgent is the agent that answers when this policy fails to decide a route; "" is nobody.
	OnErrorAgent string
	// AllowOnError lets a tool call pass if this policy fails. A caller who can make the policy fail can then bypass it.
	AllowOnError bool
	// Agents and Channels are globs. If they are not empty, the policy is asked only about agents and channel instances that match.
	// The agent of a routing decision is the static table's candidate.
	Agents, Channels []string
	// Isolation is IsolationPure, IsolationWarm, or "" for the default: warm for a policy that only
	// routes, pure for one that guards tools.
	Isolation string
	// Shadow policies are asked without effect. ShadowOf is the policy that a shadow is compared with, "" for the whole chain.
	Shadow   bool
	ShadowOf string
	// RevertAfter is the number of failures from which a new module's failure rate may take it out of force; 0 is never.
	RevertAfter int
	// Replay is the gate of recorded decisions.
	Replay ReplayGate
	// Installed is set for a policy of the store of installed policies, which has the Path.
	Installed *Installed
}

// Installed is an installed policy, by its name in the store.
type Installed struct {
	Name string
	// Lock is the file that maps the name to a module. It is watched.
	Lock string
	// Trust represents everything else that Find depends on: with another Trust it is another policy.
	Trust string
	// Find returns the path of the module's file and the SHA-256 that it has to have. It may take as long as a build.
	Find func(ctx context.Context) (path, file string, err error)
}

func (i *Installed) equal(other *Installed) bool {
	if i == nil || other == nil {
		return i == other
	}
	return i.Name == other.Name && i.Lock == other.Lock && i.Trust == other.Trust
}

// read reads the policy's file. That of an installed policy has to have the digest in the lock.
func (s *Source) read(ctx context.Context) ([]byte, error) {
	if s.Installed == nil {
		return readModule(s.Path)
	}
	path, file, err := s.Installed.Find(ctx)
	if err != nil {
		return nil, err
	}
	s.Path = path
	wasm, err := readModule(path)
	if err == nil && fileDigest(wasm) != file {
		err = fmt.Errorf("%s is not the module that %s names: it was changed on the disk", path, s.Installed.Lock)
	}
	return wasm, err
}

// watched returns the file whose changes may change the policy.
func (s *Source) watched() string {
	if s.Installed != nil {
		return s.Installed.Lock
	}
	return s.Path
}

// ReplayGate bounds how far the answers of a new module may differ from recorded ones. The zero value accepts everything.
type ReplayGate struct {
	On       bool
	Change   float64 // share of answers, 0 to 1
	Loosened float64 // share of answers that restrict less than before
}

// The kinds of decision.
const (
	KindRoute = "route"
	KindTool  = "tool"
)

// The isolation of one decision from the next. Pure resets an instance to its first state before each
// decision. Warm does so after an error and every resetEvery decisions.
const (
	IsolationPure = "pure"
	IsolationWarm = "warm"
)

// Limits bound one decision.
type Limits struct {
	Fuel      int64         // units, about one per instruction
	Memory    int64         // bytes of linear memory
	Depth     int           // nested calls
	HostCalls int           // calls of the imports of flynn1
	Wall      time.Duration // checked each time a slice of fuel is spent, and on host calls
}

// Defaults of Limits.
const (
	DefaultFuel      = 2_000_000
	DefaultMemory    = 32 << 20
	DefaultDepth     = 1000
	DefaultHostCalls = 256
	DefaultWall      = 50 * time.Millisecond
)

// Bounds that no configuration can exceed.
const (
	maxFuel   = 10_000_000_000
	maxMemory = 1 << 30
	maxDepth  = 20_000
	maxWall   = 10 * time.Second
)

func (l Limits) withDefaults() Limits {
	return Limits{
		Fuel:      cmp.Or(l.Fuel, DefaultFuel),
		Memory:    cmp.Or(l.Memory, DefaultMemory),
		Depth:     cmp.Or(l.Depth, DefaultDepth),
		HostCalls: cmp.Or(l.HostCalls, DefaultHostCalls),
		Wall:      cmp.Or(l.Wall, DefaultWall),
	}
}

func (l Limits) check() error {
	switch {
	case l.Fuel < 0 || l.Fuel > maxFuel:
		return fmt.Errorf("fuel is %d, at most %d is allowed", l.Fuel, int64(maxFuel))
	case l.Memory < 0 || l.Memory > maxMemory:
		return fmt.Errorf("memory is %d bytes, at most %d are allowed", l.Memory, maxMemory)
	case l.Depth < 0 || l.Depth > maxDepth:
		return fmt.Errorf("depth is %d, at most %d is allowed", l.Depth, maxDepth)
	case l.HostCalls < 0:
		return fmt.Errorf("host calls are %d, below zero", l.HostCalls)
	case l.Wall < 0 || l.Wall > maxWall:
		return fmt.Errorf("wall time is %v, at most %v is allowed", l.Wall, maxWall)
	}
	return nil
}

func (s Source) check() error {
	if s.Name == "" {
		return fmt.Errorf("a policy has no name")
	}
	if len(s.Kinds) == 0 {
		return fmt.Errorf("no kinds; give kinds = [\"route\"], [\"tool\"] or both")
	}
	for _, k := range s.Kinds {
		if k != KindRoute && k != KindTool {
			return fmt.Errorf("unknown kind %q; the kinds are route and tool", k)
		}
	}
	switch s.Isolation {
	case "", IsolationPure, IsolationWarm:
	default:
		return fmt.Errorf("unknown isolation %q; it is pure or warm", s.Isolation)
	}
	if err := s.checkScope(); err != nil {
		return err
	}
	return s.Limits.check()
}

func checkSources(sources []Source) error {
	var errs []error
	seen := map[string]bool{}
	for _, s := range sources {
		if err := s.check(); err != nil {
			errs = append(errs, fmt.Errorf("policy %q: %w", s.Name, err))
		}
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("policy %q: two policies have this name", s.Name))
		}
		seen[s.Name] = true
	}
	errs = append(errs, checkShadows(sources))
	return errors.Join(errs...)
}

func (s Source) equal(other Source) bool {
	return s.Name == other.Name && s.Installed.equal(other.Installed) && (s.Installed != nil || s.Path == other.Path) &&
		slices.Equal(s.Kinds, other.Kinds) && maps.Equal(s.Data, other.Data) &&
		s.Limits.withDefaults() == other.Limits.withDefaults() && s.OnErrorAgent == other.OnErrorAgent && s.isolation() == other.isolation() &&
		s.AllowOnError == other.AllowOnError && slices.Equal(s.Agents, other.Agents) && slices.Equal(s.Channels, other.Channels) &&
		s.Shadow == other.Shadow && s.ShadowOf == other.ShadowOf
}

func (s Source) has(kind string) bool {
	return slices.Contains(s.Kinds, kind)
}

func (s Source) isolation() string {
	switch {
	case s.Isolation != "":
		return s.Isolation
	case s.has(KindTool):
		return IsolationPure
	}
	return IsolationWarm
}

// Times returns the limits multiplied by n, except for host calls, up to the bounds. It is for an instrumented build of a policy.
func (l Limits) Times(n int64) Limits {
	l = l.withDefaults()
	times := func(v, bound int64) int64 {
		if v > bound/n {
			return bound
		}
		return v * n
	}
	return Limits{
		Fuel: times(l.Fuel, maxFuel), Memory: times(l.Memory, maxMemory), Depth: int(times(int64(l.Depth), maxDepth)),
		HostCalls: l.HostCalls, Wall: maxWall,
	}
}
