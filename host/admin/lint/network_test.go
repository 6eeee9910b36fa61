package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

func TestNetworks(t *testing.T) {
	const unread, reaches = `it is not used, because network is "`, "commands reach all that listens on this machine"
	for name, c := range map[string]struct {
		text string
		want []string // key and problem
	}{
		"nothing":                {"[sandbox]\nenabled = true\n", nil},
		"used":                   {"[sandbox]\nenabled = true\nnetwork = \"allowlist\"\nallowlist = [\"a.example\"]\n", nil},
		"not used":               {"[sandbox]\nenabled = true\nallowlist = [\"a.example\"]\n", []string{"sandbox.allowlist " + unread + `none"`}},
		"a bridge":               {"[sandbox]\nenabled = true\nnetwork = \"bridge\"\nallowlist = [\"a.example\"]\n", []string{"sandbox.allowlist " + unread + `bridge"`}},
		"used by another":        {"[sandbox]\nenabled = true\nallowlist = [\"a.example\"]\n[sandboxes.x]\nnetwork = \"allowlist\"\n", nil},
		"another has its own":    {"[sandbox]\nenabled = true\nallowlist = [\"a.example\"]\n[sandboxes.x]\nnetwork = \"allowlist\"\nallowlist = [\"b.example\"]\n", []string{"sandbox.allowlist " + unread + `none"`}},
		"not used by another":    {"[sandbox]\nenabled = true\n[sandboxes.x]\nallowlist = [\"a.example\"]\n", []string{"sandboxes.x.allowlist " + unread + `none"`}},
		"the host":               {"[sandbox]\nenabled = true\nnetwork = \"host\"\n[sandboxes.x]\n", []string{"sandbox.network " + reaches}},
		"the host by another":    {"[sandbox]\nenabled = true\n[sandboxes.x]\nnetwork = \"host\"\n", []string{"sandboxes.x.network " + reaches}},
		"the host, switched off": {"[sandbox]\nnetwork = \"host\"\n", nil},
		"programs":               {"[sandbox]\nenabled = true\n[agent_configs.c]\nkind = \"code\"\n[agent_configs.c.code]\nallowlist = [\"a.example\"]\n", []string{"agent_configs.c.code.allowlist " + unread + `none"`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "flynn.toml")
			if err := os.WriteFile(path, []byte("[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n"+c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(path, func(string) string { return dir })
			if err != nil {
				t.Fatal(err)
			}
			got := Networks(cfg)
			if len(got) != len(c.want) {
				t.Fatalf("findings %v", got)
			}
			for i, f := range got {
				if !strings.HasPrefix(f.Key+" "+f.Problem, c.want[i]) || f.Line == 0 || !strings.HasPrefix(f.Hint, "write network = ") {
					t.Errorf("finding %d: %+v", i, f)
				}
			}
		})
	}
}
