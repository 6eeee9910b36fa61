// Package metrics keeps the metrics that the gateway serves to Prometheus at /metrics.
//
// To add a metric, declare it in the function of its area below Subscribe and subscribe to the event that it counts; NewGateway has those of
// HTTP. A value that exists at any time, such as a queue's length, is read from State when Prometheus asks. Labels come from the
// configuration, never from messages. The package decides nothing, and no caller waits for it.
package metrics

import (
	"path"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/observe/egresslog"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/observe/telemetry"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool/search"
)

// registry declares metrics, whose names get the prefix flynn_.
type registry struct{ prometheus.Registerer }

func (r registry) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flynn_" + name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

// seconds is a histogram of durations from half a millisecond to about two minutes.
func (r registry) seconds(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "flynn_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
	}, labels)
	r.MustRegister(h)
	return h
}

// Subscribe declares the metrics of the host's areas in r and counts their events.
func Subscribe(r prometheus.Registerer, events *event.Bus) {
	in := registry{r}
	messages(in, events)
	turns(in, events)
	models(in, events)
	plugins(in, events)
	policies(in, events)
	sandboxes(in, events)
}

// messages are those that arrive and the replies to them.
func messages(in registry, events *event.Bus) {
	received := in.counter("messages_total", "Messages that arrived, by their fate.", "channel", "fate")
	event.On(events, func(e channel.Received) { received.WithLabelValues(e.Channel, e.Fate).Inc() })

	admissions := in.counter("admissions_total", "Messages that admission decided about on their arrival, by its decision.", "channel", "ruling")
	event.On(events, func(e channel.Judged) { admissions.WithLabelValues(e.Channel, string(e.Decision)).Inc() })

	pairings := in.counter("pairing_events_total", "Requests for pairing, their outcomes, and wrong codes.", "event")
	event.On(events, func(e pairing.Happened) { pairings.WithLabelValues(string(e.Event)).Inc() })

	deliveries := in.counter("deliveries_total", "Attempts to deliver a reply, by outcome; \"dead\" is a reply that was given up.", "channel", "outcome")
	event.On(events, func(e channel.Delivered) { deliveries.WithLabelValues(e.Channel, e.Outcome).Inc() })
}

func turns(in registry, events *event.Bus) {
	ended := in.seconds("turn_seconds", "Turns from their begin to the committed reply.", "agent", "state")
	event.On(events, func(e agent.TurnEnded) { ended.WithLabelValues(e.Agent, string(e.State)).Observe(e.Took.Seconds()) })

	violations := in.counter("code_violations_total", "Forbidden actions that programs of code agents attempted.", "agent", "kind")
	event.On(events, func(e code.Violated) { violations.WithLabelValues(e.Agent, string(e.Kind)).Inc() })

	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "flynn_spans_lost_total", Help: "Turns whose spans were not sent to the collector.",
	})
	in.MustRegister(lost)
	event.On(events, func(telemetry.Lost) { lost.Inc() })
}

func models(in registry, events *event.Bus) {
	calls := in.seconds("model_call_seconds", "Duration of attempts at a model call; failure is empty for a success.", "tier", "model", "failure")
	tokens := in.counter("tokens_total", "Tokens as the provider counts them.", "tier", "model", "direction")
	cost := in.counter("model_cost_usd_total", "Cost of model calls, by the prices of the configuration.", "tier", "model")
	event.On(events, func(c model.Call) {
		calls.WithLabelValues(c.Tier, c.Model, string(c.Kind())).Observe(c.Duration.Seconds())
		tokens.WithLabelValues(c.Tier, c.Model, "input").Add(float64(c.Usage.Input))
		tokens.WithLabelValues(c.Tier, c.Model, "output").Add(float64(c.Usage.Output))
		tokens.WithLabelValues(c.Tier, c.Model, "cache_read").Add(float64(c.Usage.CacheRead))
		tokens.WithLabelValues(c.Tier, c.Model, "cache_write").Add(float64(c.Usage.CacheWrite))
		cost.WithLabelValues(c.Tier, c.Model).Add(c.Usage.CostUSD)
	})

	searches := in.seconds("search_seconds", "Duration of web searches, by service and outcome.", "service", "outcome")
	event.On(events, func(e search.Searched) {
		searches.WithLabelValues(e.Service, string(e.Outcome)).Observe(e.Took.Seconds())
	})

	full := in.counter("budget_full_total", "Model calls that a daily budget refused.", "level")
	event.On(events, func(e agent.BudgetExceeded) { full.WithLabelValues(string(e.Level)).Inc() })
}

func plugins(in registry, events *event.Bus) {
	states := in.counter("plugin_states_total", "Changes of state of a plugin instance.", "instance", "state")
	event.On(events, func(e plugin.StateChanged) { states.WithLabelValues(e.Name, string(e.State)).Inc() })

	calls := in.seconds("plugin_call_seconds", "Calls to plugins.", "instance", "method", "ok")
	event.On(events, func(e plugin.Called) {
		calls.WithLabelValues(e.Instance, e.Method, strconv.FormatBool(e.Err == nil)).Observe(e.Took.Seconds())
	})

	counted := in.counter("plugin_events_total", "Counters of plugins; the plugins choose the names, at most 50 of an instance.", "instance", "name")
	event.On(events, func(e service.Counted) { counted.WithLabelValues(e.Instance, e.Name).Add(float64(e.N)) })

	served := in.counter("plugin_service_calls_total", "Calls of plugins to the host, by outcome.", "instance", "method", "code")
	event.On(events, func(e service.Called) { served.WithLabelValues(e.Instance, path.Base(e.Method), e.Code.String()).Inc() })

	webhooks := in.counter("webhook_requests_total", "Requests to webhooks; instance is empty for unknown paths.", "instance", "status")
	event.On(events, func(e service.HookServed) { webhooks.WithLabelValues(e.Instance, strconv.Itoa(e.Status)).Inc() })
}

func policies(in registry, events *event.Bus) {
	loads := in.counter("policy_loads_total", "Loads of policy modules, by outcome, refused ones included.", "policy", "result")
	event.On(events, func(c policy.Change) { loads.WithLabelValues(c.Policy, string(c.Outcome)).Inc() })

	shadows := in.counter("policy_shadow_total", "Decisions of shadow policies, by outcome, lost and dropped ones included.", "policy", "outcome")
	event.On(events, func(s policy.Shadowed) { shadows.WithLabelValues(s.Policy, string(s.Outcome)).Inc() })
	event.On(events, func(e shadowlog.Lost) { shadows.WithLabelValues(e.Policy, "lost").Inc() })
}

func sandboxes(in registry, events *event.Bus) {
	egress := in.counter("sandbox_egress_total", "Requests of programs in sandboxes to the proxy and to bridges.", "kind", "allowed")
	event.On(events, func(e egresslog.Decided) { egress.WithLabelValues(e.Kind, strconv.FormatBool(e.Allowed)).Inc() })

	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "flynn_sandbox_egress_lost_total", Help: "Records that the egress log could not take.",
	})
	in.MustRegister(lost)
	event.On(events, func(e egresslog.Lost) { lost.Add(float64(e.Records)) })
}
