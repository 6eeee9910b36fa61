package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func denying(rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(int64(abi.ToolDeny)|rule<<8))
}

func TestProveAsksTheBytesTheCasesBesideThePath(t *testing.T) {
	const (
		manifest = "name = \"p\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\n"
		cases    = "[[case]]\nname = \"all is denied\"\nwant = { deny = true, rule = 1 }\n[[case]]\nname = \"by rule one\"\nwant = { deny = true, rule = 1 }\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		rule  int64
		want  string
	}{
		{"a module by itself", nil, 2, ""},
		{"all cases pass", map[string]string{"policy.toml": manifest, "cases/a.toml": cases}, 1, ""},
		{"a case fails", map[string]string{"policy.toml": manifest, "cases/a.toml": cases}, 2, `case "all is denied" of a.toml fails: rule: want 1, got 2 (and 1 more)`},
		{"no cases", map[string]string{"policy.toml": manifest}, 2, ""},
		{"another module's folder", map[string]string{"policy.toml": manifest + "build.output = \"other.wasm\"\n", "cases/a.toml": cases}, 2, ""},
		{"a manifest that cannot be read", map[string]string{"policy.toml": "name = ", "cases/a.toml": cases}, 1, "policy.toml"},
		{"cases that cannot be read", map[string]string{"policy.toml": manifest, "cases/a.toml": "[[case]]\n"}, 1, "a.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "cases"), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "policy.wasm")
			// Files that lie there by now must not count.
			if err := os.WriteFile(path, denying(3-c.rule), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Prove(t.Context(), path, denying(c.rule), "")
			if got := ""; c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				if err != nil {
					got = err.Error()
				}
				t.Errorf("error %q, want %q", got, c.want)
			}
		})
	}
}
