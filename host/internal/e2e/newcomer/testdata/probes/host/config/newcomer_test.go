package config

import (
	"os"
	"path/filepath"
	"testing"
)

// The new key has its default where the file lacks it, and the file's value otherwise.
func TestNewcomer(t *testing.T) {
	for text, want := range map[string]string{"": "Flynn", "title = \"Home\"\n": "Home"} {
		path := filepath.Join(t.TempDir(), "flynn.toml")
		text = "[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[gateway]\n" + text
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(path, func(string) string { return t.TempDir() })
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Gateway.Title != want {
			t.Errorf("the title is %q, want %q", cfg.Gateway.Title, want)
		}
	}
}
