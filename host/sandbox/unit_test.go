package sandbox

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestInside(t *testing.T) {
	for _, c := range []struct {
		name, want string
		outside    bool
	}{
		{"f", "f", false}, {"./a//b/", "a/b", false}, {"a/../b", "b", false}, {"", ".", false},
		{"/workspace", ".", false}, {"/workspace/", ".", false}, {"/workspace/a/./b", "a/b", false},
		{"..", "", true}, {"a/../../b", "", true}, {"/", "", true}, {"/workspace/..", "", true},
		{"/workspacex", "", true}, {"/etc/passwd", "", true}, {"a\x00b", "", true}, {strings.Repeat("a", 5000), "", true},
		{"..a", "..a", false}, {"a/..b", "a/..b", false},
	} {
		got, err := inside(c.name, "/workspace")
		if got != c.want || errors.Is(err, machine.ErrOutside) != c.outside {
			t.Errorf("%.20q: got %q (%v)", c.name, got, err)
		}
	}
}

func TestSpecHash(t *testing.T) {
	base := Spec{Image: "x"}.WithDefaults()
	same := base
	same.Timeout = time.Hour
	if base.hash("s") != same.hash("s") {
		t.Error("the time-out of commands should not replace containers")
	}
	for name, change := range map[string]func(*Spec){
		"image": func(s *Spec) { s.Image = "y" }, "network": func(s *Spec) { s.Network = "host" },
		"memory": func(s *Spec) { s.MemoryBytes++ }, "cpus": func(s *Spec) { s.CPUs = 2 },
		"disk": func(s *Spec) { s.DiskBytes++ }, "pids": func(s *Spec) { s.PidsLimit++ }, "runtime": func(s *Spec) { s.Runtime = "runsc" },
		"workspace": func(s *Spec) { s.WorkspaceDir = "/w" }, "allowlist": func(s *Spec) { s.Allowlist = []string{"example.com"} },
	} {
		other := base
		if change(&other); base.hash("s") == other.hash("s") {
			t.Errorf("%s does not count", name)
		}
	}
	if base.hash("s") == base.hash("t") {
		t.Error("the supervisor does not count")
	}
}
