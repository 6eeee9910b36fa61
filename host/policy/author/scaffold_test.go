package author

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

// A new policy builds and passes its cases with no network at all.
func TestNewPoliciesWorkOffline(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-trimpath")
	for _, language := range Languages() {
		for _, kind := range []string{policy.KindRoute, policy.KindTool} {
			t.Run(language+" "+kind, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "my-policy")
				if err := New(dir, language, kind); err != nil {
					t.Fatal(err)
				}
				mustBuild(t, dir)
				mustPass(t, dir, 3)
				switch language {
				case "go":
					vetAndTest(t, dir)
				case "rust":
					testRust(t, dir)
				}
			})
		}
	}
}

// vetAndTest runs the scaffold's own unit tests as its author would.
func vetAndTest(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"vet", "."}, {"test", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", args[0], err, out)
		}
	}
}

// testRust runs the scaffold's own unit tests, as cargo would.
func testRust(t *testing.T, dir string) {
	t.Helper()
	out := t.TempDir()
	library, tests := filepath.Join(out, "libflynn.rlib"), filepath.Join(out, "tests")
	for _, args := range [][]string{
		{"rustc", "--edition", "2021", "-D", "warnings", "--crate-type", "rlib", "--crate-name", "flynn", "-o", library, "vendor/flynn/src/lib.rs"},
		{"rustc", "--edition", "2021", "-D", "warnings", "--test", "--extern", "flynn=" + library, "-o", tests, "policy.rs"},
		{tests},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, said)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, language, kind, want string }{
		{"a name with a space", "my policy", "c", policy.KindRoute, "lower-case words"},
		{"a folder that exists", "taken", "c", policy.KindRoute, "exists already"},
		{"a language it has no scaffold for", "new", "cobol", policy.KindRoute, "use one of c, go, "},
		{"a kind that does not exist", "new", "c", "model", "route or tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := New(filepath.Join(dir, c.dir), c.language, c.kind)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a refused policy left a folder")
	}
}
