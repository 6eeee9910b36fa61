package policy

import "testing"

// Those that need the host's matcher are tried by the cases of the first-party policies.
func TestGlobsWithoutTheHost(t *testing.T) {
	for _, c := range []struct {
		list, text string
		want       bool
	}{
		{"", "shell.exec", false},
		{"shell.* process.*", "shell.exec", true},
		{"shell.* process.*", "process.start", true},
		{"shell.*", "shellfish", false},
		{"file.read", "file.read", true},
		{"file.read", "file.readable", false},
		{"*", "anything", true},
		{"  owner\n member ", "member", true},
	} {
		if got := ParseGlobs(c.list).Match(c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.list, c.text, got)
		}
	}
}
