package backend

import (
	"runtime"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

func TestWeakHasEveryPart(t *testing.T) {
	all := Weak()
	for _, part := range [][]string{machine.Weak(), jail.Weak(), mounts.Weak()} {
		for _, w := range part {
			if !slices.Contains(all, w) {
				t.Errorf("%q is left out", w)
			}
		}
	}
	if len(all) == 0 {
		t.Error("no system is perfect")
	}
	if linux := runtime.GOOS == "linux"; linux != (len(WeakerThanLinux()) == 0) {
		t.Errorf("weaker than Linux: %q", WeakerThanLinux())
	}
}
