package sandbox

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// rungContainer is the ladder's last rung, which only the host can reach.
const rungContainer = "container"

// checkExit refuses a verdict that no supervisor would give.
func checkExit(b frame.ExitBody) error {
	bad := b.ExitCode < -1 || b.ExitCode > 255 || b.Signal < 0 || b.Signal > 64 ||
		b.Dropped < 0 || b.Wall < 0 || b.CPU < 0
	if b.Kill != nil {
		bad = bad || checkKill(*b.Kill) != nil
	}
	if bad {
		return fmt.Errorf("%w: impossible verdict %+v", frame.ErrProtocol, b)
	}
	return nil
}

func checkKill(k frame.KillBody) error {
	switch k.Rung {
	case "term", "kill", "sweep", "uid":
		if k.Took >= 0 && k.Survivors >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: impossible kill certificate %+v", frame.ErrProtocol, k)
}

// verdict translates the supervisor's words.
func verdict(b frame.ExitBody) machine.Result {
	r := machine.Result{
		ExitCode: b.ExitCode, Dropped: b.Dropped,
		TimedOut: b.TimedOut, Canceled: b.Canceled, OOM: b.OOM, PidsHit: b.PidsHit,
		Wall: b.Wall, CPU: b.CPU,
	}
	if b.Signal != 0 {
		r.Signal = signalName(b.Signal)
	}
	if b.Kill != nil {
		r.Kill = &machine.Kill{Rung: b.Kill.Rung, Took: b.Kill.Took, Survivors: b.Kill.Survivors}
	}
	return r
}

func signalName(number int) string {
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", number)
}
