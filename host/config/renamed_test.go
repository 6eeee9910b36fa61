package config

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestRenamedKeys: a key under the name of the last release counts, and a warning names the new one.
func TestRenamedKeys(t *testing.T) {
	const rest = "[models.default]\nprovider = \"demo\"\n[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[sandbox]\n"
	for name, c := range map[string]struct {
		keys, err string
		value     bool
		warnings  int
	}{
		"the old name":     {"local_doors = true", "", true, 1},
		"the new name":     {"local_frontends = true", "", true, 0},
		"both":             {"local_doors = true\nlocal_frontends = false", `flynn.toml:7: sandbox.local_doors: it is now local_frontends, which is set as well (remove local_doors)`, false, 0},
		"of another type":  {`local_doors = "yes"`, "sandbox.local_frontends: must be a boolean, not a string", false, 0},
		"no name":          {`"" = 1`, "unknown key", false, 0},
		"not quite either": {"local_door = true", "unknown key", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "flynn.toml"), rest+c.keys, 0o600)
			var log bytes.Buffer
			h, err := NewHolder(path, environ("HOME", filepath.Dir(path)), slog.New(slog.NewTextHandler(&log, nil)))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Current(); got.Sandbox.LocalFrontends != c.value || len(got.Renamed) != c.warnings {
				t.Errorf("value %v, warnings %v", got.Sandbox.LocalFrontends, got.Renamed)
			}
			if n := strings.Count(log.String(), "local_doors: it is now local_frontends"); n != c.warnings {
				t.Errorf("the log warns %d times:\n%s", n, log.String())
			}
		})
	}
}
