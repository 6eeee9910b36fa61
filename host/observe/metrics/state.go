package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// State is the part of the host that is read when Prometheus asks.
type State interface {
	// Generation is the number of the configuration in force, from 1 at the start.
	Generation() uint64
	// Waiting counts the replies that are committed and not delivered yet, by channel.
	Waiting() map[string]int
	Pools() pool.Stats
	Policies() []policy.Status
	// Models is the state of each tier's model in force.
	Models() []model.Status
	// Backup is when the latest backup was made, in seconds since 1970; 0 if there is none.
	Backup() int64
}

// Observe declares the metrics that are read from s, and the metrics of the process.
func Observe(r prometheus.Registerer, s State) {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "flynn_" + name, Help: help}, value))
	}
	gauge("config_generation", "The configuration in force, counted from 1 since the start.", func() float64 { return float64(s.Generation()) })
	gauge("replies_waiting", "Replies that are committed and not delivered yet.", func() (sum float64) {
		for _, n := range s.Waiting() {
			sum += float64(n)
		}
		return sum
	})
	gauge("backup_timestamp_seconds", "When the latest backup was made, in seconds since 1970; 0 if there is none.", func() float64 {
		return float64(s.Backup())
	})
	pools(r, s.Pools)
	r.MustRegister(
		each[policy.Status]{
			s.Policies, prometheus.NewDesc("flynn_policy_stateful_samples",
				"Sampled decisions that the policy's module in force makes otherwise in its first state; above 0 it has hidden state.", []string{"policy"}, nil),
			func(p policy.Status) (float64, []string) { return float64(p.Stateful), []string{p.Name} },
		},
		each[model.Status]{
			s.Models, prometheus.NewDesc("flynn_model_breaker", "State of the breaker of a tier's model: 0 closed, 1 half open, 2 open.",
				[]string{"tier", "provider", "model"}, nil),
			func(m model.Status) (float64, []string) {
				state := map[model.State]float64{model.Closed: 0, model.HalfOpen: 1, model.Open: 2}[m.State]
				return state, []string{m.Tier, m.Provider, m.Model}
			},
		},
	)
}

// pools declares the metrics of the warm pools. The hit ratio, hits / (hits + misses), should be 0.95 or more.
func pools(r prometheus.Registerer, stats func() pool.Stats) {
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
		counter("misses", "Sandboxes that had to be made, by why the pools could not serve them.",
			prometheus.Labels{"reason": string(reason)}, func(s pool.Stats) int64 { return s.Misses[reason] })
	}
	counter("refills", "Containers made for the pools.", nil, func(s pool.Stats) int64 { return s.Refills })
	counter("failures", "Containers that could not be made for the pools.", nil, func(s pool.Stats) int64 { return s.Failures })
	counter("drained", "Containers of the pools ended because memory ran short or the configuration changed.", nil,
		func(s pool.Stats) int64 { return s.Drained })
	counter("replaced", "Containers of the pools ended because they were old or dead.", nil,
		func(s pool.Stats) int64 { return s.Replaced })
}

// each is a collector of one gauge per item of a list that changes with the configuration.
type each[T any] struct {
	list  func() []T
	desc  *prometheus.Desc
	value func(T) (value float64, labels []string)
}

// Describe implements prometheus.Collector.
func (e each[T]) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect implements prometheus.Collector.
func (e each[T]) Collect(to chan<- prometheus.Metric) {
	for _, item := range e.list() {
		v, labels := e.value(item)
		to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, v, labels...)
	}
}
