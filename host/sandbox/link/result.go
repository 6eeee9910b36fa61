package link

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// checkExit refuses a result that no correct supervisor sends.
func checkExit(b frame.ExitBody) error {
	bad := b.ExitCode < -1 || b.ExitCode > 255 || b.Signal < 0 || b.Signal > 64 ||
		b.Dropped < 0 || b.Wall < 0 || b.CPU < 0 || b.PeakMemory < 0 ||
		b.DroppedErr < 0 || b.DroppedErr > b.Dropped || b.Spill < 0 || b.Spill > frame.MaxSpill
	if b.Kill != nil {
		bad = bad || checkKill(*b.Kill) != nil
	}
	if b.Changes != nil {
		bad = bad || b.Changes.Check() != nil
	}
	if bad {
		return fmt.Errorf("%w: impossible result %.1000s", frame.ErrProtocol, fmt.Sprintf("%+v", b))
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

// toResult converts a result of the supervisor.
func toResult(b frame.ExitBody) machine.Result {
	r := machine.Result{
		ExitCode: b.ExitCode, Dropped: b.Dropped,
		TimedOut: b.TimedOut, Canceled: b.Canceled, OOM: b.OOM, PidsHit: b.PidsHit,
		Wall: b.Wall, CPU: b.CPU, DiskHit: b.DiskHit, PeakMemory: b.PeakMemory, Changes: changed(b.Changes), Kill: (*machine.Kill)(b.Kill),
	}
	if b.Spill != 0 {
		r.Spill = path.Join(frame.SpillDir, strconv.Itoa(b.Spill)+".log")
	}
	if b.Signal != 0 {
		r.Signal = signalName(b.Signal)
	}
	return r
}

func signalName(number int) string {
	if name := unix.SignalName(syscall.Signal(number)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", number)
}

func changed(b *frame.ChangesBody) *machine.Changes {
	if b == nil {
		return nil
	}
	return &machine.Changes{
		Added: frame.Texts(b.Added), Modified: frame.Texts(b.Modified), Deleted: frame.Texts(b.Deleted), Unread: frame.Texts(b.Unread), Partial: b.Partial,
	}
}

// mark inserts a line between the beginning and the end of a stream from which something was left out.
func mark(stream []byte, dropped, limit int64, spill string) []byte {
	tail := int(frame.Tail(limit))
	if dropped == 0 || len(stream) < tail {
		return stream
	}
	where := ""
	if spill != "" {
		where = "; all of it is in " + spill
	}
	line := fmt.Sprintf("\n[%d bytes left out here%s]\n", dropped, where)
	return slices.Insert(stream, len(stream)-tail, []byte(line)...)
}
