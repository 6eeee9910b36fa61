package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// engine is what makes the sandboxes of a test, of which the one named python prefers a filter of system calls.
type engine []driver.Lack

func (e engine) NotHeld(where string) string {
	var prefers []driver.Feature
	if where == "python" {
		prefers = []driver.Feature{driver.Seccomp}
	}
	return driver.Capabilities{Lacks: e}.NotHeld(prefers)
}

// TestLimitsThatAreNotHeld: a person who decides about a call in a sandbox is told which limits it does without.
func TestLimitsThatAreNotHeld(t *testing.T) {
	const limits, filter = "Limits not held on this machine: memory\\_limit, cpu\\_limit", "Limits not held on this machine: seccomp"
	lacks := []driver.Lack{
		{Limit: driver.MemoryLimit, Why: "no control groups\n\x1b[2J"}, {Limit: driver.CPULimit, Why: "x"}, {Limit: driver.LeftMemory, Why: "one user"},
	}
	for _, c := range []struct {
		name, where string
		made        Sandboxes
		says        string // "": nothing
	}{
		{"in the sandbox", "sandbox", engine(lacks), limits},
		{"in a named one", "python", engine(lacks), filter + ", memory\\_limit, cpu\\_limit"},
		{"what it prefers alone", "python", engine{}, filter},
		{"on the host", "host", engine(lacks), ""},
		{"nowhere yet", "", engine(lacks), ""},
		{"everything is held", "sandbox", engine{}, ""},
		{"only what is no key", "sandbox", engine(lacks[2:]), ""},
		{"no sandboxes", "sandbox", nil, ""},
	} {
		s, err := New(Config{Store: &memoryStore{}, Sandboxes: c.made})
		if err != nil {
			t.Fatal(err)
		}
		a := requestOf(`{"command":"ls"}`)
		a.Where = c.where
		o := s.Offer(a)
		for what, text := range map[string]string{"notice is": Text(a, o, time.Now()), "details are": Details(a, o, time.Now())} {
			found, want := strings.Contains(text, "not held"), strings.ToLower(c.says)
			if found != (want != "") || !strings.Contains(strings.ToLower(text), want) || strings.Contains(text, "control groups") {
				t.Errorf("%s: the %s\n%s", c.name, what, text)
			}
		}
	}
}
