package author

import (
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// firstParty are the policies that ship with Flynn.
var firstParty = []string{"office-hours", "guard-tools"}

func TestFirstPartyPolicies(t *testing.T) {
	for _, name := range firstParty {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "policies", name)
			mustBuild(t, dir)
			m, _ := LoadManifest(dir)
			cases, err := LoadCases(dir, m)
			if err != nil {
				t.Fatal(err)
			}
			res, err := runCases(t.Context(), openHarness(t, m.modulePath(dir)), cases)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res {
				if !r.Passed {
					t.Errorf("%s: %q: %v", r.File, r.Name, r.Diffs)
				}
			}
			t.Log(len(res))
		})
	}
}

func mustBuild(t testing.TB, dir string) {
	t.Helper()
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Language == "c" {
		_, err := findTool("clang")
		need.Part(t, "clang", err)
	}
	if _, err := Build(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// mustOpen loads the built module of a folder until the test ends.
func mustOpen(t *testing.T, dir string, data map[string]string) asker {
	t.Helper()
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := openHarness(t, m.modulePath(dir))(t.Context(), Case{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// mustPass runs the cases of a built policy and checks that there are at least n of them.
func mustPass(t *testing.T, dir string, n int) {
	t.Helper()
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	results, err := runCases(t.Context(), openHarness(t, m.modulePath(dir)), cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Passed {
			t.Errorf("%s: %q: %v", r.File, r.Name, r.Diffs)
		}
	}
	if len(results) < n {
		t.Errorf("%d cases, want at least %d", len(results), n)
	}
}
