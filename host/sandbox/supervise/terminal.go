//go:build linux

package supervise

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// endOfInput is the character that a terminal in its usual mode treats as the end of input: control-D.
const endOfInput = 0x04

// openTerminal creates a terminal for a command, with the workload's identity, so that the workload may open it again. Our end is opened
// twice, because input and output end at different times.
func openTerminal(f *files, size frame.Size) (*pipes, error) {
	var p *pipes
	err := f.as(func() error {
		ours, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		theirs, err := openSlave(ours)
		if err != nil {
			unix.Close(ours)
			return err
		}
		again, err := unix.FcntlInt(uintptr(ours), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			unix.Close(ours)
			unix.Close(theirs)
			return err
		}
		resize(ours, size)
		p = &pipes{terminal: true, null: -1, ours: [3]int{again, ours, -1}, theirs: [3]int{theirs, theirs, theirs}}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	return p, nil
}

// openSlave unlocks and opens the command's end; see pts(4).
func openSlave(ours int) (int, error) {
	if err := unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	number, err := unix.IoctlGetInt(ours, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// resize changes the size of a terminal, which the kernel reports to its programs.
func resize(fd int, size frame.Size) {
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// resize changes the size of a command's terminal, if it has one.
func (c *command) resize(size frame.Size) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body.Terminal == nil || c.input == nil || c.closed {
		return
	}
	if raw, err := c.input.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { resize(int(fd), size) })
	}
}
