package author

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copied is a first-party policy in a folder of its own, with its module.
func copied(t *testing.T, name string) string {
	t.Helper()
	mustBuild(t, firstParty(name))
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(firstParty(name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGoldenTraces(t *testing.T) {
	t.Parallel()
	dir := copied(t, "office-hours")
	written, err := UpdateTraces(t.Context(), dir)
	if err != nil || len(written) == 0 {
		t.Fatalf("wrote %v (%v)", written, err)
	}
	r, err := Test(t.Context(), dir, nil)
	if err != nil || r.Failed != 0 {
		t.Fatalf("%d failed of what was just written (%v)", r.Failed, err)
	}
	text, err := os.ReadFile(written[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\ndata ") || !strings.Contains(string(text), "\n-> agent ") {
		t.Errorf("the trace tells of no call or no answer:\n%s", text)
	}
	for name, change := range map[string]func(string) string{
		"another call":   func(s string) string { return strings.Replace(s, "\ndata ", "\ndata x", 1) },
		"another answer": func(s string) string { return strings.Replace(s, "\n-> agent ", "\n-> agent x", 1) },
		"a line less": func(s string) string {
			i := strings.Index(s, "\ndata ")
			return s[:i] + s[i+1+strings.Index(s[i+1:], "\n"):]
		},
		"a case less": func(s string) string { return s[strings.Index(s, "\n== ")+1:] },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(written[0], []byte(change(string(text))), 0o644); err != nil {
				t.Fatal(err)
			}
			r, err := Test(t.Context(), dir, nil)
			if err != nil || r.Failed != 1 {
				t.Fatalf("%d failed (%v)", r.Failed, err)
			}
			for _, c := range r.Cases {
				if !c.Passed && (len(c.Diffs) != 1 || c.Diffs[0].Field != "trace" || c.Diffs[0].Want == c.Diffs[0].Got) {
					t.Errorf("%s: %v", c.Name, c.Diffs)
				}
			}
		})
	}
}
