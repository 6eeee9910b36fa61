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

// Generations puts tools in force for later turns.
type Generations interface {
	// Refresh offers the tools that the providers have now. It may be called from any goroutine.
	Refresh()
	// Waiting returns the configuration in force while turns wait for late tools, and nil otherwise.
	Waiting() *config.Config
}

// SetConfig configures a Set. All of it is required.
type SetConfig struct {
	Own         *tool.Registry // Flynn's own tools
	Journal     *Journal
	Processes   Processes
	Servers     Servers // that run in sandboxes
	Generations Generations
	Log         *slog.Logger
}

// Set holds the providers of a host by name. A provider is made at its first use and outlives its configuration: running turns keep its
// tools. Safe for concurrent use.
type Set struct {
	cfg     SetConfig
	began   time.Time
	started atomic.Bool

	mu        sync.Mutex
	providers map[string]*Provider
}

// NewSet returns a set without providers. The time to wait for late tools begins now.
func NewSet(cfg SetConfig) *Set {
	return &Set{cfg: cfg, began: time.Now(), providers: map[string]*Provider{}}
}

// Provider returns the provider of that name.
func (s *Set) Provider(name string) *Provider {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.providers[name]
	if !ok {
		p = New(Config{Name: name, Journal: s.cfg.Journal, Log: s.cfg.Log, Changed: s.cfg.Generations.Refresh})
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

// Started is called after the processes of a configuration were started, and offers their tools.
func (s *Set) Started(c *config.Config) {
	s.started.Store(true)
	if len(c.Tools) > 0 {
		s.cfg.Generations.Refresh() // a list may have changed while the configuration was made ready
	}
}

const (
	// patience is how long after the start of the host turns wait for the tools of providers.
	patience = time.Minute
	// lateEvery is how often Run checks whether the last missing plugins were given up.
	lateEvery = 100 * time.Millisecond
)

// Late returns, by agent, the late providers whose tools it or one of its delegates may have. A caller that also makes a registry calls
// Late first, so that the registry has a provider that comes up in between.
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
				a := c.Agents[agent] // an override may name any tool that is not known yet
				return slices.Contains(c.Tools[p].Profiles, a.ToolProfile) || len(a.ToolOverrides.Allow) > 0
			}
			if slices.ContainsFunc(team, offers) {
				out[name] = append(out[name], p)
			}
		}
	}
	return out
}

// late returns the providers that have not listed their tools, without those that are not started or were given up.
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

// Run releases turns that wait for a plugin which was given up or takes too long. A provider that comes up releases them itself.
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
