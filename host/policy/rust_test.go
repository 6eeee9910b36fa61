package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

const rustTarget = "wasm32-unknown-unknown"

func rulesRust(t testing.TB) string { return buildRust(t, "author/testdata/rules-rust/policy.rs") }

// buildRust compiles a Rust policy as `flynn policy dev build` does, without its tables of source lines.
func buildRust(t testing.TB, source string) string {
	t.Helper()
	need.Long(t)
	rustc, err := findRust()
	need.Part(t, "rustc", err)
	dir := t.TempDir()
	library, out := filepath.Join(dir, "libflynn.rlib"), filepath.Join(dir, "policy.wasm")
	common := []string{"--edition", "2021", "--target", rustTarget, "-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "target-feature=+bulk-memory"}
	run(t, nil, rustc, append(common, "--crate-type", "rlib", "--crate-name", "flynn", "-o", library, "../../sdk/policy/rust/src/lib.rs")...)
	run(t, nil, rustc, append(common, "--crate-type", "cdylib", "--crate-name", "policy", "--extern", "flynn="+library, "-C", "lto", "-C", "strip=debuginfo",
		"-C", "link-arg=-zstack-size=16384", "-C", "link-arg=--stack-first", "-o", out, source)...)
	return out
}

// findRust returns the first compiler on PATH that has a library for WebAssembly.
func findRust() (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		rustc := filepath.Join(dir, "rustc")
		library, err := exec.Command(rustc, "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(library))); err == nil {
			return rustc, nil
		}
	}
	return "", exec.ErrNotFound
}
