package config

import (
	"path/filepath"
	"testing"
)

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for path, want := range map[string]string{
		"flynn.toml":                          "flynn serve",
		"./flynn.toml":                        "flynn serve",
		filepath.Join(dir, "flynn.toml"):      "flynn serve",
		"other.toml":                          "flynn --config other.toml serve",
		"/etc/flynn/flynn.toml":               "flynn --config /etc/flynn/flynn.toml serve",
		"my files/it's; rm -r $HOME/`x`.toml": `flynn --config 'my files/it'\''s; rm -r $HOME/` + "`x`.toml' serve",
	} {
		if got := CommandLine(path, "serve"); got != want {
			t.Errorf("CommandLine(%q) is %q, want %q", path, got, want)
		}
	}
}
