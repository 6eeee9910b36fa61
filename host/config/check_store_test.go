package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheAddressOfTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flynn.toml")
	for _, c := range []struct{ name, key, value, want string }{
		{"set", "FLYNN_STORE", "postgres://u:pa55@h/d", ""},
		{"not set", "FLYNN_STORE", "", "environment variable FLYNN_STORE is not set"},
		{"no name of a variable", "postgres://u=v", "x", `"postgres://u=v" is not a name of an environment variable`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[store]\ndir = \"/tmp/x\"\nurl_env = \"" + c.key + "\"\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(path, func(name string) string {
				if name == c.key {
					return c.value
				}
				return ""
			})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ":6") {
					t.Errorf("error is %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if dir, variable, url := cfg.Store.Location(); dir != "/tmp/x" || variable != c.key || string(url) != c.value {
				t.Errorf("the store is at %q, %q, %v", dir, variable, url)
			}
		})
	}
}
