//go:build linux

package supervise

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipes are the standard streams of one command: in, out, err.
type pipes struct {
	ours   [3]*os.File // non-blocking; nil for a missing stdin and a joined err
	theirs [3]int
	null   int
	// terminal says that all three are one terminal.
	terminal bool
}

// openPipes makes pipes for out and err, one for both if they are to be joined in the order of
// writing, and for in if wanted, else in reads from null.
func openPipes(wantIn, joined bool, null int) (*pipes, error) {
	p := &pipes{theirs: [3]int{null, -1, -1}, null: null}
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
	ours, theirs := ends[0], ends[1]
	if i == 0 {
		ours, theirs = theirs, ours
	}
	p.theirs[i] = theirs
	if err := unix.SetNonblock(ours, true); err != nil {
		unix.Close(ours)
		return err
	}
	p.ours[i] = os.NewFile(uintptr(ours), "pipe")
	return nil
}

func (p *pipes) closeOurs() {
	for _, f := range p.ours {
		if f != nil {
			f.Close()
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
