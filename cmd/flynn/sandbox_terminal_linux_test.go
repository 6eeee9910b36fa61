package main

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/flynnhost/flynn/host/sandbox/executor"
)

func TestSandboxExecOnATerminal(t *testing.T) {
	s := newSandboxes(t, "")
	out, result := s.flynn(0, "exec", "-t", "stty size; tty; echo $TERM >&2")
	want := "24 80\r\n/dev/pts/0\r\n" + cmp.Or(os.Getenv("TERM"), "dumb") + "\r\n"
	if out != want || !strings.Contains(result, "exit code 0") {
		t.Errorf("printed %q, want %q; result %s", out, want, result)
	}
	if out, _ := s.flynn(3, "exec", "-t", "exit 3"); out != "" {
		t.Errorf("printed %q", out)
	}
	if out, _ := s.flynn(0, "exec", "--terminal=false", "tty || true"); out != "not a tty\n" {
		t.Errorf("printed %q", out)
	}
}

func TestTakeTerminal(t *testing.T) {
	ours, theirs := pty(t)
	fd := int(ours.Fd())
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
		t.Fatal(err)
	}
	raw := func() bool {
		state, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return state.Lflag&(unix.ICANON|unix.ISIG|unix.ECHO) == 0
	}
	size, restore, err := takeTerminal(theirs)
	if err != nil || size != (executor.Size{Rows: 33, Cols: 77}) || !raw() || !term.IsTerminal(int(theirs.Fd())) {
		t.Errorf("size %v, raw %v (%v)", size, raw(), err)
	}
	if restore(); raw() {
		t.Error("left in raw mode")
	}
	if size, restore, err := takeTerminal(nil); err != nil || size != defaultSize {
		t.Errorf("without a terminal: size %v (%v)", size, err)
	} else {
		restore()
	}
}
