package provider

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/tool"
)

// Processes are the plugin processes behind providers; *plugin.Host implements it.
type Processes interface {
	Status() []plugin.Status
}

// Generations puts tools in force for the turns to come.
type Generations interface {
	// Refresh offers the tools that the providers have now. It may be called from any goroutine.
	Refresh()
	// Waiting returns the configuration in force while turns wait for late tools, and nil otherwise.
	Waiting() *config.Config
}

// SetConfig is what a Set is made from. All of it is required.
type SetConfig struct {
	Own         *tool.Registry // Flynn's own tools
	Ledger      *Ledger
	Processes   Processes
	Servers     Servers // that run in sandboxes
	Generations Generations
	Log         *slog.Logger
}

// Set has the providers of a host by name. A provider is made at its first mention and outlives its configuration: turns that have begun
// keep its tools. Safe for concurrent use.
type Set struct {
	cfg     SetConfig
	began   time.Time
	started atomic.Bool

	mu        sync.Mutex
	providers map[string]*Provider
}

// NewSet returns a set without providers. The time in which late tools are waited for begins now.
func NewSet(cfg SetConfig) *Set {
	return &Set{cfg: cfg, began: time.Now(), providers: map[string]*Provider{}}
}

// Provider returns the provider of that name.
func (s *Set) Provider(name string) *Provider {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.providers[name]
	if !ok {
		p = New(Config{Name: name, Ledger: s.cfg.Ledger, Log: s.cfg.Log, Changed: s.cfg.Generations.Refresh})
		s.providers[name] = p
	}
	return p
}

// Registry returns Flynn's own tools and those that the providers of a configuration offer now. A tool that cannot be registered is left
// out: a name stays with the tool that had it first, and Flynn's own come first.
func (s *Set) Registry(c *config.Config) *tool.Registry {
	all := s.cfg.Own.Clone()
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if !c.Tools[name].Enabled {
			continue
		}
		tools, problems := s.Provider(name).Tools(RulesOf(c.Tools[name]))
		for _, t := range tools {
			if err := all.Register(t); err != nil {
				problems = append(problems, err.Error())
			}
		}
		for _, p := range problems {
			s.cfg.Log.Warn("tools of a provider", "provider", name, "problem", p)
		}
	}
	return all
}

// Started says that the processes of a configuration were started, and offers what they list.
func (s *Set) Started(c *config.Config) {
	s.started.Store(true)
	if len(c.Tools) > 0 {
		s.cfg.Generations.Refresh() // a list may have changed while the configuration was made ready
	}
}

const (
	// patience is how long after the start of the host work waits for the tools of providers that have not come up.
	patience = time.Minute
	// lateEvery is how often Run looks for plugins that were given up.
	lateEvery = 100 * time.Millisecond
)

// Late returns, by agent, the late providers whose tools it or one of its delegates may be offered. A caller that makes a registry as well
// asks for them first: a provider that comes up in between is then in the registry.
func (s *Set) Late(c *config.Config) map[string][]string {
	late := s.late(c)
	if len(late) == 0 {
		return nil
	}
	out := map[string][]string{}
	for name := range c.Agents {
		team := []string{name}
		for i := 0; i < len(team); i++ {
			for _, d := range c.Agents[team[i]].Delegates {
				if !slices.Contains(team, d) {
					team = append(team, d)
				}
			}
		}
		for _, p := range late {
			offers := func(agent string) bool {
				a := c.Agents[agent] // which tools an override names is not known before they are there
				return slices.Contains(c.Tools[p].Profiles, a.ToolProfile) || len(a.ToolOverrides.Allow) > 0
			}
			if slices.ContainsFunc(team, offers) {
				out[name] = append(out[name], p)
			}
		}
	}
	return out
}

// late returns the providers whose tools may still come up: those that have not listed theirs, unless they are not started or were given up.
func (s *Set) late(c *config.Config) []string {
	if time.Since(s.began) >= patience {
		return nil
	}
	known := map[string]plugin.State{}
	for _, p := range s.cfg.Processes.Status() {
		known[p.Name] = p.State
	}
	var late []string
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if !c.Tools[name].Enabled || s.Provider(name).Listed() {
			continue
		}
		state, added := known[name]
		if s.started.Load() && (!added || state == plugin.Quarantined || state == plugin.Disabled) {
			continue
		}
		late = append(late, name)
	}
	return late
}

// Run lets work go on that waits for the tools of a plugin which was given up or has taken too long. A provider that comes up does so itself.
func (s *Set) Run(ctx context.Context) error {
	again := time.NewTicker(lateEvery)
	defer again.Stop()
	for {
		if c := s.cfg.Generations.Waiting(); c != nil && len(s.late(c)) == 0 {
			s.cfg.Generations.Refresh()
		}
		if time.Since(s.began) >= patience && s.cfg.Generations.Waiting() == nil {
			return nil // a reload finds none any more
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}
