package host

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestBreakerMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(breakers{func() []model.Status {
		return []model.Status{{Tier: "default", Provider: "openai", Model: "m", State: model.Open}, {Tier: "fast", Provider: "demo", State: model.Closed}}
	}})
	families, err := r.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "flynn_model_breaker" {
		t.Fatalf("families are %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		key := ""
		for _, l := range m.GetLabel() {
			key += l.GetValue() + " "
		}
		got[key] = m.GetGauge().GetValue()
	}
	if len(got) != 2 || got["m openai default "] != 2 || got[" demo fast "] != 0 {
		t.Errorf("gauges are %v", got)
	}
}

// Background processes and files in the media store are among what is held.
func TestHeld(t *testing.T) {
	h := newHost(t, "")
	defer h.close()
	m, err := h.fleet.Host("tg:c:a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // the end of a run ends what runs on the host
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_ = h.fleet.Run(ctx)
	}()
	for range 2 {
		if _, err := m.Start(t.Context(), machine.Command{Script: "sleep 60"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.files.Keep(t.Context(), "tg:eve", "a", strings.NewReader("a")); err != nil {
		t.Fatal(err)
	}
	got, err := backend{h}.Held(t.Context())
	want := []gateway.Held{{Sender: "tg:eve", Media: 8 << 10}, {Processes: 2, HostProcesses: 2}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}
