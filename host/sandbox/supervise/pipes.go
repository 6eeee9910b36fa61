//go:build linux

package supervise

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pipes are the standard streams of one command: in, out, err.
type pipes struct {
	ours   [3]int // non-blocking; -1 for a missing stdin and a joined stderr
	theirs [3]int
	null   int
	// terminal is set if all three are one terminal.
	terminal bool
}

// openPipes creates pipes for stdout and stderr, a single one if they are to be joined in the order of writing, and for stdin if wantIn is
// set; otherwise stdin reads from null.
func openPipes(wantIn, joined bool, null int) (*pipes, error) {
	p := &pipes{ours: [3]int{-1, -1, -1}, theirs: [3]int{null, -1, -1}, null: null}
	for i := range p.ours {
		if i == 0 && !wantIn {
			continue
		}
		if i == 2 && joined {
			p.theirs[2] = p.theirs[1]
			continue
		}
		if err := p.open(i); err != nil {
			p.closeOurs()
			p.closeTheirs()
			return nil, fmt.Errorf("open pipe: %w", err)
		}
	}
	return p, nil
}

func (p *pipes) open(i int) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	ours, theirs, mode := ends[0], ends[1], unix.O_RDONLY
	if i == 0 {
		ours, theirs, mode = theirs, ours, unix.O_WRONLY
	}
	p.ours[i], p.theirs[i] = ours, theirs
	_, err := unix.FcntlInt(uintptr(ours), unix.F_SETFL, mode|unix.O_NONBLOCK) // a new pipe has no other flags
	return err
}

func (p *pipes) closeOurs() {
	for _, fd := range p.ours {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (p *pipes) closeTheirs() {
	if p.terminal {
		unix.Close(p.theirs[0])
		return
	}
	for i, fd := range p.theirs {
		joined := i == 2 && fd == p.theirs[1]
		if fd >= 0 && fd != p.null && !joined {
			unix.Close(fd)
		}
	}
}
