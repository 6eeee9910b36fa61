//go:build linux

package supervise

import (
	"io"
	"os"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// incoming is where frames of the host come from.
type incoming struct {
	*frame.Reader
	fd int // by which to see whether more have come, or -1
}

func newIncoming(from io.Reader) *incoming {
	in := &incoming{frame.NewReader(from, frame.SupervisorSide), -1}
	if file, is := from.(*os.File); is {
		if raw, err := file.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { in.fd = int(fd) })
		}
	}
	return in
}

// isQuiet reports whether nothing is read ahead, and what else comes can be seen.
func (in *incoming) isQuiet() bool { return in.fd >= 0 && in.Buffered() == 0 }
