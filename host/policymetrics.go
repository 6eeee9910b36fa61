package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/policy"
)

func (m *metrics) policyShadow(name, outcome string) { m.shadows.WithLabelValues(name, outcome).Inc() }

// observeStateful names the policies that remember what they should not.
func observeStateful(r *prometheus.Registry, statuses func() []policy.Status) {
	r.MustRegister(stateful{statuses, prometheus.NewDesc("flynn_policy_stateful_samples",
		"Sampled decisions that the policy's module in force makes otherwise in its first state; above 0 it has hidden state.", []string{"policy"}, nil)})
}

// stateful is a collector, since the policies change with the configuration.
type stateful struct {
	statuses func() []policy.Status
	desc     *prometheus.Desc
}

func (s stateful) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

func (s stateful) Collect(to chan<- prometheus.Metric) {
	for _, p := range s.statuses() {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(p.Stateful), p.Name)
	}
}
