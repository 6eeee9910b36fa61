package config

import (
	"path/filepath"
	"testing"
)

func TestWhoBoundsChangesBoundsWhatTheyOpen(t *testing.T) {
	for _, c := range []struct {
		name, keys       string
		change, loosened Percent
	}{
		{"nothing is written", "", 100, 100},
		{"changes are bounded", `max_change = "2.5%"`, 2.5, 0},
		{"even to all", `max_change = "100%"`, 100, 0},
		{"both are bounded", "max_change = \"5%\"\nmax_loosened = \"1%\"", 5, 1},
		{"only what opens", `max_loosened = "0%"`, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "p.wasm"), "", 0o600)
			text := "routing.default_agent = \"main\"\nagent_configs = { main = {} }\n[[policies]]\nname = \"p\"\npath = \"p.wasm\"\nkinds = [\"tool\"]\n" + c.keys
			cfg, err := Load(write(t, filepath.Join(dir, "flynn.toml"), text, 0o600), environ("HOME", dir))
			if err != nil {
				t.Fatal(err)
			}
			if p := cfg.Policies[0]; p.MaxChange != c.change || p.MaxLoosened != c.loosened {
				t.Errorf("change %v, loosened %v; want %v and %v", p.MaxChange, p.MaxLoosened, c.change, c.loosened)
			}
		})
	}
}
