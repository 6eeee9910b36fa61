package host

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/policy"
)

func TestStatefulPoliciesAreNamed(t *testing.T) {
	registry := prometheus.NewRegistry()
	observeStateful(registry, func() []policy.Status { return []policy.Status{{Name: "clean"}, {Name: "counts", Stateful: 3}} })
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v: %v", err, families)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if families[0].GetName() != "flynn_policy_stateful_samples" || got["clean"] != 0 || got["counts"] != 3 || len(got) != 2 {
		t.Errorf("%s: %v", families[0].GetName(), got)
	}
}
