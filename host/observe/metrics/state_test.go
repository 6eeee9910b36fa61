package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// gathered returns the values of a family, of a histogram the sums, by the values of the labels, each after a space.
func gathered(t *testing.T, r *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			found[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return found
}

type fixed struct{}

func (fixed) Generation() uint64      { return 7 }
func (fixed) Waiting() map[string]int { return map[string]int{"irc": 2, "tg": 1} }
func (fixed) Pools() pool.Stats       { return pool.Stats{Hits: 5} }
func (fixed) Policies() []policy.Status {
	return []policy.Status{{Name: "clean"}, {Name: "counts", Stateful: 3}}
}
func (fixed) Backup() int64 { return 1_795_000_000 }
func (fixed) Models() []model.Status {
	return []model.Status{{Tier: "default", Provider: "openai", Model: "m", State: model.Open}, {Tier: "fast", Provider: "demo", State: model.Closed}}
}

func TestStateIsReadWhenAsked(t *testing.T) {
	r := prometheus.NewRegistry()
	Observe(r, fixed{})
	for _, tt := range []struct {
		family, labels string
		want           float64
	}{
		{"flynn_config_generation", "", 7},
		{"flynn_replies_waiting", "", 3},
		{"flynn_backup_timestamp_seconds", "", 1_795_000_000},
		{"flynn_policy_stateful_samples", " clean", 0},
		{"flynn_policy_stateful_samples", " counts", 3},
		{"flynn_model_breaker", " m openai default", 2}, // in the order of the labels' names
		{"flynn_model_breaker", "  demo fast", 0},
	} {
		if got, ok := gathered(t, r, tt.family)[tt.labels]; !ok || got != tt.want {
			t.Errorf("%s{%s} is %v (%v), want %v", tt.family, tt.labels, got, ok, tt.want)
		}
	}
	if got := gathered(t, r, "flynn_sandbox_pool_hits_total")[""]; got != 5 {
		t.Errorf("%v hits, want 5", got)
	}
}

func TestEventsAreCounted(t *testing.T) {
	r, events := prometheus.NewRegistry(), &event.Bus{}
	Subscribe(r, events)
	events.Publish(channel.Received{Channel: "irc", Fate: "new"})
	events.Publish(channel.Received{Channel: "irc", Fate: "new"})
	events.Publish(agent.TurnEnded{Agent: "a", State: "done", Took: time.Second})
	events.Publish(plugin.Called{Instance: "irc", Method: "Send"})
	if got := gathered(t, r, "flynn_messages_total")[" irc new"]; got != 2 {
		t.Errorf("%v messages, want 2", got)
	}
	if got := gathered(t, r, "flynn_turn_seconds")[" a done"]; got != 1 {
		t.Errorf("turns took %v s, want 1", got)
	}
	if _, ok := gathered(t, r, "flynn_plugin_call_seconds")[" irc Send true"]; !ok {
		t.Error("the call of a plugin is not counted as one that succeeded")
	}
}
