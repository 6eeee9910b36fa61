package host

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// TestShadowsEndInATable runs an engine with a shadow over a real store and reads the table beside it.
func TestShadowsEndInATable(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	l := newShadowLog(s, m, slog.New(slog.DiscardHandler))
	module := func(name string, verdict int64) policy.Source {
		path := filepath.Join(dir, name+".wasm")
		if err := os.WriteFile(path, w.Policy(1).Hook("flynn_tool", "", w.I64(verdict)), 0o600); err != nil {
			t.Fatal(err)
		}
		return policy.Source{Name: name, Path: path, Kinds: []string{policy.KindTool}}
	}
	live, next, same := module("live", abi.ToolDeny|1<<8), module("next", abi.ToolAsk|2<<8), module("same", abi.ToolDeny|1<<8)
	next.Shadow, next.ShadowOf, same.Shadow = true, "live", true
	told := make(chan policy.Shadowed, 100)
	engine, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{live, next, same}, OnShadow: func(s policy.Shadowed) {
		l.shadowed(s)
		told <- s
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- engine.RunShadows(ctx) }()
	go func() { done <- l.run(ctx) }()
	set := engine.Pin()
	defer set.Release()
	at := time.Now()
	// Until the shadows run, decisions are not theirs.
	const n = 10
	for heard := 0; heard < 2*n; {
		f := policy.ToolFacts{Agent: "main", Tool: "shell.run"}
		f.Message.Channel, f.Message.Sender.ID, f.Now = "irc", "alice", at
		set.Tool(t.Context(), f)
		select {
		case <-told:
			heard++
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	reports, err := ShadowReports(t.Context(), &config.Config{Store: config.Store{Dir: dir}}, store.ShadowFilter{}, 1)
	if err != nil || len(reports) != 2 {
		t.Fatalf("%v: %+v", err, reports)
	}
	r := reports[0]
	if r.Policy != "next" || r.Against != "live" || r.Compared < n || r.Changed != r.Compared || r.Looser != r.Changed || len(r.Groups) != 1 || r.File == "" {
		t.Errorf("%+v", r)
	}
	if g := r.Groups[0]; g.Was != "deny" || g.Is != "ask" || g.IsWhy != "rule 2" || len(g.Examples) != 1 || g.Examples[0].Sender != "irc:alice" || g.Examples[0].Tool != "shell.run" {
		t.Errorf("%+v", g)
	}
	if r := reports[1]; r.Policy != "same" || r.Compared < n || r.Changed != 0 || r.Against != "" {
		t.Errorf("%+v", r)
	}
	if got := counted(t, registry, "flynn_policy_shadow_total")["changed next"]; got != float64(r.Changed) {
		t.Errorf("the metric says %v", got)
	}
}

// counted are the values of a counter by its labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return values
}

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
