package sandboxes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

func TestTheSandboxOfAProgramIsExplained(t *testing.T) {
	sandboxtest.Engine(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[routing]\ndefault_agent = \"main\"\n[sandbox]\nenabled = true\nimage = %q\n"+
		"[agent_configs.main]\nkind = \"cli\"\n[agent_configs.main.cli]\npreset = \"claude\"\napi_key_env = \"EXPLAINED_KEY\"\n", dir+"/s", sandboxtest.Image)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	explain := func() map[string]sandboxes.Placement {
		c, err := config.Load(path, os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sandboxes.Open(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Driver.Close()
		list, err := s.Explain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		places := map[string]sandboxes.Placement{}
		for _, p := range list {
			places[p.Agent+" "+p.Door] = p
		}
		return places
	}
	if p := explain()["main local"]; p.Action != "deny" || !slices.ContainsFunc(p.Reasons, func(r string) bool { return strings.Contains(r, "set EXPLAINED_KEY") }) {
		t.Errorf("without a key: %+v", p)
	}
	t.Setenv("EXPLAINED_KEY", "a-key")
	all := explain()
	for _, frontend := range []string{"main channel", "main local"} {
		p := all[frontend]
		if p.Action != "run" || p.Where != "cli:main" || !p.Sandboxed || p.Network != "allowlist" || p.Image != sandboxtest.Image || p.Reasons[0] != `[agent_configs.main] kind = "cli"` {
			t.Errorf("%s: %+v", frontend, p)
		}
	}
}
