package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// engine is what makes the sandboxes of a test.
type engine []driver.Lack

func (e engine) Engine() driver.Capabilities { return driver.Capabilities{Lacks: e} }

// TestLimitsThatAreNotHeld: a person who decides about a call in a sandbox is told which limits it does without.
func TestLimitsThatAreNotHeld(t *testing.T) {
	const says = "Limits not held on this machine: memory\\_limit, cpu\\_limit"
	lacks := []driver.Lack{
		{Limit: driver.MemoryLimit, Why: "no control groups\n\x1b[2J"}, {Limit: driver.CPULimit, Why: "x"}, {Limit: driver.LeftMemory, Why: "one user"},
	}
	for _, c := range []struct {
		name, where string
		made        Sandboxes
		says        bool
	}{
		{"in the sandbox", "sandbox", engine(lacks), true},
		{"in a named one", "python", engine(lacks), true},
		{"on the host", "host", engine(lacks), false},
		{"nowhere yet", "", engine(lacks), false},
		{"everything is held", "sandbox", engine{}, false},
		{"only what is no key", "sandbox", engine(lacks[2:]), false},
		{"no sandboxes", "sandbox", nil, false},
	} {
		s, err := New(Config{Store: &memoryStore{}, Sandboxes: c.made})
		if err != nil {
			t.Fatal(err)
		}
		a := requestOf(`{"command":"ls"}`)
		a.Where = c.where
		o := s.Offer(a)
		if text := Text(a, o, time.Now()); strings.Contains(text, says) != c.says || strings.Contains(text, "control groups") {
			t.Errorf("%s: the notice is\n%s", c.name, text)
		}
		if text := Details(a, o, time.Now()); strings.Contains(strings.ToLower(text), strings.ToLower(says)) != c.says {
			t.Errorf("%s: the details are\n%s", c.name, text)
		}
	}
}
