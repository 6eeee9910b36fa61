package policy

import (
	"strings"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// FuzzLoad takes any bytes all the way to the first decisions: what cannot be loaded is an error, and what can decides or fails closed, soon.
func FuzzLoad(f *testing.F) {
	f.Add([]byte{})
	f.Add(w.Policy(1).Hook("flynn_tool", "il", w.Block(w.LocalGet(0), w.BrIf(0)), w.I64(1)))
	f.Add(largeFrames())
	for _, a := range corpus(f) {
		if len(a.wasm) < 2_000 && a.class != ClassFuel && a.class != ClassDeadline && !strings.HasPrefix(a.load, "fuel") {
			f.Add(a.wasm)
		}
	}
	h, err := newHost(f.Context(), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.release() })
	sources := map[string]Source{}
	for _, kind := range []string{KindRoute, KindTool} {
		sources[kind] = Source{Name: kind, Kinds: []string{kind}, Isolation: IsolationWarm, Limits: Limits{Memory: 4 << 20, Wall: time.Second}}
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		for kind, source := range sources {
			begin := time.Now()
			m, err := loadModule(t.Context(), h, source, wasm)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it took %v to load", took)
			}
			if err != nil {
				if asError(err, "").Class == "" || len(err.Error()) > 8_000 {
					t.Errorf("the error %.200q has no class, or no end", err)
				}
				continue
			}
			for range 2 {
				decideOnce(t, m, kind)
			}
			m.release()
		}
	})
}

// decideOnce checks what holds for every decision.
func decideOnce(t *testing.T, m *Module, kind string) {
	t.Helper()
	begin := time.Now()
	var r Record
	if kind == KindRoute {
		var a RouteAnswer
		if a, r = m.Route(t.Context(), routeFacts()); a.Failed != (r.Error != "") || a.Agent != "" && a.Agent != "main" && a.Agent != "errors" {
			t.Errorf("%+v with %+v", a, r)
		}
	} else {
		var a Restrictions
		if a, r = m.Tool(t.Context(), toolFacts()); r.Error != "" && !a.Deny {
			t.Errorf("%+v with %+v", a, r)
		}
	}
	if took := time.Since(begin); took > 15*time.Second || r.Fuel <= 0 || recorded(r) > maxNoted {
		t.Errorf("it took %v, %d units and %d bytes", took, r.Fuel, recorded(r))
	}
}
