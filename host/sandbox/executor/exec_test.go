package executor

import (
	"errors"
	"strings"
	"testing"

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
		got, err := Inside(c.name, "/workspace")
		if got != c.want || errors.Is(err, machine.ErrOutside) != c.outside {
			t.Errorf("%.20q: got %q (%v)", c.name, got, err)
		}
	}
}
