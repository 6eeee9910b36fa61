package rego_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"

	"github.com/flynnhost/flynn/host/policy"
)

// foreign is a module from OPA's compiler as anybody may call it, without our checks.
func foreign(t *testing.T, source string, entrypoints ...string) string {
	t.Helper()
	b := bundle.Bundle{Data: map[string]any{}, Modules: []bundle.ModuleFile{
		{URL: "p.rego", Path: "p.rego", Raw: []byte(source), Parsed: ast.MustParseModuleWithOpts(source, ast.ParserOptions{RegoVersion: ast.RegoV1})},
	}}
	b.Manifest.Init()
	c := compile.New().WithTarget(compile.TargetWasm).WithEntrypoints(entrypoints...).WithBundle(&b).WithRegoVersion(ast.RegoV1)
	if err := c.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.wasm")
	if err := os.WriteFile(path, c.Bundle().WasmModules[0].Raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A missing import is reported when the module is loaded, not when it is asked.
func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		source, entrypoint string
		data               map[string]string
		want               []string
	}{
		"the network": {`package flynn
route := {"agent": http.send({"url": "http://x", "method": "get"}).body}`, "flynn/route", nil, []string{"http.send", "does not offer", "sprintf"}},
		"the clock and randomness": {`package flynn
route := {"agent": "a"} if time.now_ns() > rand.intn("x", 5)`, "flynn/route", nil, []string{"rand.intn, time.now_ns", "input.unix_time"}},
		"another entrypoint": {`package other
allow := true`, "other/allow", nil, []string{"no entrypoint flynn/route", "-e flynn/route"}},
		"data that hides the rules": {`package flynn
route := {"agent": "a"}`, "flynn/route", map[string]string{"flynn": "x"}, []string{`the key "flynn"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Open(t.Context(), policy.Source{Name: "p", Path: foreign(t, c.source, c.entrypoint), Kinds: []string{"route"}, Data: c.data})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// A module from the opa command itself works, if it keeps to what there is.
func TestForeignModule(t *testing.T) {
	m := opened(t, policy.Source{Name: "p", Kinds: []string{"route"}, Path: foreign(t, `package flynn
route := {"agent": "coder"} if input.role == "member"`, "flynn/route")})
	if a, r := m.Route(t.Context(), routeFacts()); a.Agent != "coder" {
		t.Errorf("got %+v, error %q", a, r.Error)
	}
}
