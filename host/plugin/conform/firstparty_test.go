//go:build unix

package conform

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestFirstPartyPlugins holds the plugins and examples of this tree to the contract that others are held to: all that say how to be tried.
func TestFirstPartyPlugins(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var found []string
	for _, pattern := range []string{"../../../plugins/*/" + FileName, "../../../examples/*/" + FileName} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, some...)
	}
	if len(found) == 0 {
		t.Fatal("there is none")
	}
	for _, file := range found {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			build(t, dir)
			report, err := Run(t.Context(), Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				if r.Outcome == Fail {
					t.Errorf("%s: %s", r.Check, r.Detail)
				} else if r.Outcome == Skip {
					t.Logf("%s is skipped: %s", r.Check, r.Detail)
				}
			}
			t.Logf("%d passed, %d skipped", report.Count(Pass), report.Count(Skip))
		})
	}
}

// build builds a plugin in Go into its bin folder, where plugin.toml expects it.
func build(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		_, err := exec.LookPath("node")
		need.Part(t, "node", err)
		return
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", "bin/", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}
