package provider

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/tool"
)

// house is what a Set needs of a host: a configuration in force whose turns wait as long as Late says.
type house struct {
	set       *Set
	config    *config.Config
	state     atomic.Value // plugin.State of ext
	late      atomic.Bool
	refreshed atomic.Int64
}

func (h *house) Status() []plugin.Status {
	state, _ := h.state.Load().(plugin.State)
	return []plugin.Status{{Name: "ext", State: state}}
}

func (h *house) Refresh() {
	h.refreshed.Add(1)
	h.late.Store(len(h.set.Late(h.config)) > 0)
}

func (h *house) Waiting() *config.Config {
	if h.late.Load() {
		return h.config
	}
	return nil
}

func newHouse(c *config.Config) *house {
	h := &house{config: c}
	h.set = NewSet(SetConfig{Own: tool.NewRegistry(), Processes: h, Generations: h, Log: slog.New(slog.DiscardHandler)})
	return h
}

func TestARegistryHasTheToolsOfProviders(t *testing.T) {
	h := newHouse(&config.Config{Tools: map[string]config.ToolProvider{"ext": {Enabled: true, Effect: "read"}, "off": {}}})
	f := &fake{}
	f.set(spec("roll"))
	if err := h.set.Provider("ext").read(t.Context(), f, 0); err != nil {
		t.Fatal(err)
	}
	if h.refreshed.Load() == 0 {
		t.Error("nobody hears of a new list")
	}
	all := h.set.Registry(h.config)
	if _, ok := all.Get("ext.roll"); !ok {
		t.Errorf("the registry has %v", all.List())
	}
	if own := h.set.cfg.Own.List(); len(own) != 0 {
		t.Errorf("Flynn's own tools have %v", own)
	}
}

// TestLate: agents wait for a provider that they, or their delegates, may be offered tools of, until it is given up.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(&config.Config{
			Tools: map[string]config.ToolProvider{"ext": {Enabled: true, Profiles: []string{"full"}}, "off": {Profiles: []string{"full"}}},
			Agents: map[string]config.Agent{
				"full": {ToolProfile: "full"}, "lead": {ToolProfile: "minimal", Delegates: []string{"full"}}, "alone": {ToolProfile: "minimal"},
				"named": {ToolProfile: "minimal", ToolOverrides: config.ToolOverrides{Allow: []string{"ext.roll"}}},
			},
		})
		late := h.set.Late(h.config)
		if got := slices.Sorted(maps.Keys(late)); !slices.Equal(got, []string{"full", "lead", "named"}) || !slices.Equal(late["full"], []string{"ext"}) {
			t.Errorf("late before the start: %v", late)
		}
		h.late.Store(true)
		h.state.Store(plugin.Starting)
		h.set.Started(h.config)
		if !h.late.Load() {
			t.Error("a provider that starts is not waited for")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.set.Run(ctx) }()
		synctest.Wait()
		h.state.Store(plugin.Quarantined)
		time.Sleep(2 * lateEvery)
		synctest.Wait()
		if h.late.Load() {
			t.Error("a provider in quarantine is waited for")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestLateEnds: a provider that starts for ever is waited for no longer than patience, and then Run ends.
func TestLateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(&config.Config{
			Tools:  map[string]config.ToolProvider{"ext": {Enabled: true, Profiles: []string{"full"}}},
			Agents: map[string]config.Agent{"full": {ToolProfile: "full"}},
		})
		h.state.Store(plugin.Starting)
		h.set.Started(h.config)
		began := time.Now()
		if err := h.set.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); h.late.Load() || took < patience || took > patience+2*lateEvery {
			t.Errorf("ended after %v; late: %v", took, h.late.Load())
		}
	})
}
