// Package rust has tests of the Rust SDK; the crate itself is no Go.
package rust

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// The crate's unit tests run on this machine, without cargo. A warning fails them.
func TestUnits(t *testing.T) {
	rustc, err := exec.LookPath("rustc")
	need.Part(t, "rustc", err)
	tests := filepath.Join(t.TempDir(), "tests")
	run(t, rustc, "--edition", "2021", "--test", "--crate-name", "flynn", "-D", "warnings", "-o", tests, "src/lib.rs")
	t.Logf("%s", run(t, tests))
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, said)
	}
	return said
}
