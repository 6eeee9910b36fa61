package author

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// Inspecting refuses what the loader refuses, in the same words, and lets through what it takes.
func TestInspectRefusesWhatTheLoaderRefuses(t *testing.T) {
	hook := w.I64(0)
	foreign := func() []byte {
		m := w.Policy(1)
		m.Import("env", "open", "i>i")
		return m.Hook("flynn_tool", "", hook)
	}()
	start := func() []byte {
		m := w.Policy(1)
		m.Export("_start", m.Func(">", ""))
		return m.Hook("flynn_tool", "", hook)
	}()
	invalid := w.Policy(1).Hook("flynn_tool", "", w.I32(0)) // no i64 on the stack: only the compiler sees it
	for name, c := range map[string]struct {
		wasm    []byte
		refused bool
	}{
		"fit":              {w.Policy(1).Hook("flynn_tool", "", hook), false},
		"no module":        {[]byte("hello"), true},
		"too much memory":  {w.Policy(5000).Hook("flynn_tool", "", hook), true},
		"a foreign import": {foreign, true}, "a program": {start, true}, "invalid code": {invalid, true},
		"no hook": {w.Policy(1).Hook("flynn_model", "", hook), true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.wasm")
			if err := os.WriteFile(path, c.wasm, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Inspect(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			m, loading := policy.Open(t.Context(), policy.Source{Name: "p", Path: path, Kinds: []string{policy.KindTool}})
			if loading == nil {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
			refused := len(s.Problems) > 0 && s.Problems[0].Refused
			if refused != c.refused || (loading != nil) != c.refused {
				t.Fatalf("inspecting: %+v, loading: %v", s.Problems, loading)
			}
			if refused && loading.Error() != "load: "+s.Problems[0].Text {
				t.Errorf("inspecting says %q, loading %q", s.Problems[0].Text, loading)
			}
		})
	}
}

func TestInspectAFolder(t *testing.T) {
	dir := folder(t, map[string]string{manifestFile: cManifest + "[limits]\nfuel = 9_000_000\n", "policy.c": cCovered})
	if _, err := Inspect(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "flynn policy dev build") {
		t.Errorf("before the build: %v", err)
	}
	mustBuild(t, dir)
	s, err := Inspect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Contract != "flynn 1.1" || !slices.Equal(s.Kinds, []string{policy.KindRoute}) || !s.Lines || s.Names == 0 || s.Code == 0 || len(s.Producers) == 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Problems) != 1 || s.Problems[0].Refused || !strings.Contains(s.Problems[0].Text, "fuel 9000000, the host's default is 2000000") {
		t.Errorf("%+v", s.Problems)
	}
	a, err := policy.Open(t.Context(), policy.Source{Name: "p", Path: filepath.Join(dir, "policy.wasm"), Kinds: []string{policy.KindRoute}, Limits: policy.Limits{Fuel: 9_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if s.Digest != a.Digest() {
		t.Errorf("the digest is %s, the engine's %s", s.Digest, a.Digest())
	}
}
