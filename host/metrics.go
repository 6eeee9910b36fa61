package host

import (
	"path"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/codes"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/store"
)

// metrics are what the host tells Prometheus. Labels come from the configuration, never from messages.
type metrics struct {
	messages    *prometheus.CounterVec   // by channel and fate
	admissions  *prometheus.CounterVec   // by channel and ruling
	pairings    *prometheus.CounterVec   // by event
	deliveries  *prometheus.CounterVec   // by channel and outcome
	turns       *prometheus.HistogramVec // seconds, by agent and state
	models      *prometheus.HistogramVec // seconds, by tier, model and failure
	tokens      *prometheus.CounterVec   // by tier, model and direction
	cost        *prometheus.CounterVec   // US dollars, by tier and model
	budgets     *prometheus.CounterVec   // calls without room, by level
	plugins     *prometheus.CounterVec   // changes of state, by instance and state
	calls       *prometheus.HistogramVec // seconds, by instance and method
	events      *prometheus.CounterVec   // what plugins count, by instance and name
	services    *prometheus.CounterVec   // calls of plugins, by instance, method and code
	webhooks    *prometheus.CounterVec   // requests, by instance and status
	swaps       *prometheus.CounterVec   // by policy and result
	shadows     *prometheus.CounterVec   // by policy and outcome
	egress      *prometheus.CounterVec   // by kind and whether it was allowed
	egressLoss  prometheus.Counter
	spanLoss    prometheus.Counter
	generations prometheus.Gauge
	violations  *prometheus.CounterVec // of programs, by agent and kind
}

func newMetrics(r *prometheus.Registry) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "flynn_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	seconds := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flynn_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, labels)
		r.MustRegister(h)
		return h
	}
	m := &metrics{
		messages:   counter("messages_total", "Messages that arrived, by what became of them.", "channel", "fate"),
		admissions: counter("admissions_total", "Messages that admission has judged on their arrival, by its ruling.", "channel", "ruling"),
		pairings:   counter("pairing_events_total", "What became of strangers' requests, and wrong codes.", "event"),
		deliveries: counter("deliveries_total", "Attempts to deliver a reply, by outcome; \"dead\" is one that was given up.", "channel", "outcome"),
		turns:      seconds("turn_seconds", "Turns from their begin to the committed reply.", "agent", "state"),
		models:     seconds("model_call_seconds", "Attempts at a model call; failure is empty for one that succeeded.", "tier", "model", "failure"),
		tokens:     counter("tokens_total", "Tokens as the provider counts them.", "tier", "model", "direction"),
		cost:       counter("model_cost_usd_total", "What model calls cost, by the prices of the configuration.", "tier", "model"),
		budgets:    counter("budget_full_total", "Model calls that were not made because a daily budget had no room for them.", "level"),
		plugins:    counter("plugin_states_total", "Changes of state of a plugin instance.", "instance", "state"),
		calls:      seconds("plugin_call_seconds", "Calls to plugins.", "instance", "method", "ok"),
		events:     counter("plugin_events_total", "What plugins count themselves; the names are theirs, at most 50 of an instance.", "instance", "name"),
		services:   counter("plugin_service_calls_total", "Calls of plugins to the host, by outcome.", "instance", "method", "code"),
		webhooks:   counter("webhook_requests_total", "Requests to webhooks; instance is empty for paths that there are not.", "instance", "status"),
		swaps:      counter("policy_loads_total", "Changes of what is in force of a policy, by outcome; a file that was tried and refused is one.", "policy", "result"),
		shadows:    counter("policy_shadow_total", "Decisions that shadow policies were to be asked about, by what came of it.", "policy", "outcome"),
		egress:     counter("sandbox_egress_total", "What programs in sandboxes asked to reach, or to have run.", "kind", "allowed"),
		violations: counter("code_violations_total", "What programs of code agents tried and were kept from.", "agent", "kind"),
		spanLoss: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_spans_lost_total", Help: "Turns whose spans were not sent to the collector.",
		}),
		egressLoss: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flynn_sandbox_egress_lost_total", Help: "Records that the egress log could not take.",
		}),
		generations: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flynn_config_generation", Help: "The configuration in force, counted from 1 since the start.",
		}),
	}
	r.MustRegister(m.generations, m.egressLoss, m.spanLoss, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.generations.Set(1)
	return m
}

// observeWaiting shows how many replies are not delivered yet.
func observeWaiting(r *prometheus.Registry, waiting func() map[string]int) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flynn_replies_waiting", Help: "Replies that are committed and not delivered yet.",
	}, func() (sum float64) {
		for _, n := range waiting() {
			sum += float64(n)
		}
		return sum
	}))
}

// observePools shows how the warm pools serve sandboxes. The hit ratio is hits / (hits + misses), and should be 0.95 or more.
func observePools(r *prometheus.Registry, stats func() pool.Stats) {
	gauge := func(name, help string, value func(pool.Stats) int) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "flynn_sandbox_pool_" + name, Help: help},
			func() float64 { return float64(value(stats())) }))
	}
	counter := func(name, help string, labels prometheus.Labels, value func(pool.Stats) int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "flynn_sandbox_pool_" + name + "_total", Help: help, ConstLabels: labels,
		}, func() float64 { return float64(value(stats())) }))
	}
	gauge("ready", "Containers that wait for a session.", func(s pool.Stats) int { return s.Ready })
	gauge("wanted", "Containers that should wait for a session.", func(s pool.Stats) int { return s.Wanted })
	counter("hits", "Sandboxes that were served from a pool.", nil, func(s pool.Stats) int64 { return s.Hits })
	for _, reason := range []pool.Miss{pool.MissNoPool, pool.MissEmpty, sandbox.MissWorkspace} {
		counter("misses", "Sandboxes that had to be made, by what kept the pools from serving them.",
			prometheus.Labels{"reason": string(reason)}, func(s pool.Stats) int64 { return s.Misses[reason] })
	}
	counter("refills", "Containers made for the pools.", nil, func(s pool.Stats) int64 { return s.Refills })
	counter("failures", "Containers that could not be made for the pools.", nil, func(s pool.Stats) int64 { return s.Failures })
	counter("drained", "Containers of the pools ended because memory ran short or the configuration changed.", nil,
		func(s pool.Stats) int64 { return s.Drained })
	counter("replaced", "Containers of the pools ended because they were old or dead.", nil,
		func(s pool.Stats) int64 { return s.Replaced })
}

func (m *metrics) message(channel, fate string) { m.messages.WithLabelValues(channel, fate).Inc() }

func (m *metrics) admission(instance string, r channel.Ruling) {
	m.admissions.WithLabelValues(instance, string(r)).Inc()
}

func (m *metrics) pairing(e pairing.Event) { m.pairings.WithLabelValues(string(e)).Inc() }

func (m *metrics) delivery(channel, outcome string) {
	m.deliveries.WithLabelValues(channel, outcome).Inc()
}

func (m *metrics) turn(agent string, state store.TurnState, took time.Duration) {
	m.turns.WithLabelValues(agent, string(state)).Observe(took.Seconds())
}

func (m *metrics) modelCall(c model.Call) {
	m.models.WithLabelValues(c.Tier, c.Model, string(c.Kind())).Observe(c.Duration.Seconds())
	m.tokens.WithLabelValues(c.Tier, c.Model, "input").Add(float64(c.Usage.Input))
	m.tokens.WithLabelValues(c.Tier, c.Model, "output").Add(float64(c.Usage.Output))
	m.tokens.WithLabelValues(c.Tier, c.Model, "cache_read").Add(float64(c.Usage.CacheRead))
	m.tokens.WithLabelValues(c.Tier, c.Model, "cache_write").Add(float64(c.Usage.CacheWrite))
	m.cost.WithLabelValues(c.Tier, c.Model).Add(c.Usage.CostUSD)
}

func (m *metrics) budgetFull(level budget.Level) { m.budgets.WithLabelValues(string(level)).Inc() }

func (m *metrics) pluginState(s plugin.Status) {
	m.plugins.WithLabelValues(s.Name, string(s.State)).Inc()
}

func (m *metrics) pluginCall(instance, method string, took time.Duration, err error) {
	ok := "true"
	if err != nil {
		ok = "false"
	}
	m.calls.WithLabelValues(instance, method, ok).Observe(took.Seconds())
}

func (m *metrics) pluginEvents(instance, name string, n uint64) {
	m.events.WithLabelValues(instance, name).Add(float64(n))
}

func (m *metrics) serviceCall(instance, method string, code codes.Code) {
	m.services.WithLabelValues(instance, path.Base(method), code.String()).Inc()
}

func (m *metrics) webhook(instance string, status int) {
	m.webhooks.WithLabelValues(instance, strconv.Itoa(status)).Inc()
}

func (m *metrics) policyChange(c policy.Change) {
	m.swaps.WithLabelValues(c.Policy, string(c.Outcome)).Inc()
}

func (m *metrics) egressDecision(kind string, allowed bool) {
	m.egress.WithLabelValues(kind, strconv.FormatBool(allowed)).Inc()
}

func (m *metrics) violation(agent, kind string) { m.violations.WithLabelValues(agent, kind).Inc() }

func (m *metrics) egressLost(n int) { m.egressLoss.Add(float64(n)) }

func (m *metrics) generation(n uint64) { m.generations.Set(float64(n)) }
