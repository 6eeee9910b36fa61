package backend

import (
	"runtime"
	"slices"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Weak returns what Flynn does not guarantee on this system, and would on a better one.
func Weak() []string { return slices.Concat(machine.Weak(), jail.Weak(), mounts.Weak()) }

// WeakerThanLinux is Weak on systems other than Linux, and nothing there: an owner who has chosen Linux has no better choice.
func WeakerThanLinux() []string {
	if runtime.GOOS == "linux" {
		return nil
	}
	return Weak()
}
