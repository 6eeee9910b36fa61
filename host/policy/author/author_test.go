package author

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
	"go.uber.org/goleak"
)

// TestMain gives all tests one cache of compiled code: most of what they take is the compiler's time. That of Go's own compiler stays where it
// is, or it would compile the standard library again.
func TestMain(m *testing.M) {
	if mine, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		os.Setenv("GOCACHE", filepath.Join(mine, "go-build"))
	}
	home, err := os.MkdirTemp("", "flynn-author-*")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", home)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

// mustBuild builds a policy, or skips the test where the toolchain is missing, or takes long: only clang, and what its modules take to be
// compiled to machine code, are quick.
func mustBuild(t testing.TB, dir string) {
	t.Helper()
	if m, err := LoadManifest(dir); err != nil {
		t.Fatal(err)
	} else if m.Language != "c" {
		need.Long(t)
	}
	need.Source(t)
	part, err := toolchain(t, dir)
	need.Part(t, part, err)
	if _, err := Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// toolchain names the real part that building a policy needs, and says why it is missing if it is.
func toolchain(t testing.TB, dir string) (part string, err error) {
	t.Helper()
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	switch m.Language {
	case "c":
		_, err := findTool("clang")
		return "clang", err
	case "rust":
		_, err := findRust(t.Context())
		return "rustc", err
	case "assemblyscript":
		_, err := findCompiler(t.Context(), dir)
		return "asc", err
	}
	return "", nil
}

// mustPass runs the cases of a built policy and checks that there are at least n of them.
func mustPass(t *testing.T, dir string, n int) {
	t.Helper()
	report, err := Test(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		if !c.Passed {
			t.Errorf("%s: %q: %v", c.File, c.Name, c.Diffs)
		}
		if c.Outcome.Fuel <= 0 {
			t.Errorf("%s: %q: no fuel was counted", c.File, c.Name)
		}
	}
	if report.Passed < n {
		t.Errorf("%d cases passed, want at least %d", report.Passed, n)
	}
}

// mustOpen loads the built module of a folder until the test ends. How busy the machine is decides no question.
func mustOpen(t testing.TB, dir string, data map[string]string) *Loading {
	t.Helper()
	p, err := OpenSubject(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.loadCase(t.Context(), Case{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}
