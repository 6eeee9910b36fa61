//go:build linux

// Package terminaltest gives tests a terminal: a pseudo-terminal with the screen that a person would see.
//
// Start with Open and Terminal.Await. The screen is that of an emulator which answers what programs ask a terminal; what has scrolled off
// it is kept. Nothing here knows flynn.
package terminaltest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal with a screen.
type Terminal struct {
	// Program is the program's end.
	Program *os.File

	t       testing.TB
	ours    *os.File
	changed chan struct{}
	reading sync.WaitGroup

	mu     sync.Mutex // guards what follows
	screen *vt.Emulator
	raw    bytes.Buffer // all that the program wrote
}

// patience bounds every wait; a quiet machine needs a fraction of it.
const patience = time.Minute

// keptLines bounds what is kept of the lines that have left the screen.
const keptLines = 50_000

// Open returns a terminal of a size.
func Open(t testing.TB, columns, rows int) *Terminal {
	t.Helper()
	x := &Terminal{t: t, changed: make(chan struct{}, 1), screen: vt.NewEmulator(columns, rows)}
	x.screen.SetScrollbackSize(keptLines)
	var err error
	if x.ours, x.Program, err = pty(); err != nil {
		t.Fatal(err)
	}
	x.size(columns, rows)
	answers := x.screen // only its Read, which is safe beside Write
	x.reading.Go(func() { _, _ = io.Copy(x.ours, answers) })
	x.reading.Go(x.read)
	t.Cleanup(func() {
		_ = x.Program.Close()
		_ = x.screen.InputPipe().(io.Closer).Close()
		_ = x.ours.Close()
		x.reading.Wait()
		if t.Failed() {
			t.Logf("the terminal shows\n%s", x.Screen())
		}
	})
	return x
}

// pty opens a pseudo-terminal; see pts(4).
func pty() (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	ours = os.NewFile(uintptr(fd), "/dev/ptmx")
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		var number int
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			theirs, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		_ = ours.Close()
	}
	return ours, theirs, err
}

func (x *Terminal) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := x.ours.Read(buf)
		if n > 0 {
			x.mu.Lock()
			x.raw.Write(buf[:n])
			_, _ = x.screen.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.changed <- struct{}{}:
			default:
			}
		}
		if err != nil {
			return // the program's end was closed
		}
	}
}

// watchRaces keeps the reports of the race detector about a command off the screen, and fails the test for them. Races of the terminal's
// reader are left out: the library closes the reader half a second after it told it to stop, whether or not it has.
func (x *Terminal) watchRaces(cmd *exec.Cmd) {
	found := filepath.Join(x.t.TempDir(), "races")
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "GORACE="+os.Getenv("GORACE")+" log_path="+found)
	x.t.Cleanup(func() {
		files, _ := filepath.Glob(found + ".*")
		for _, name := range files {
			text, _ := os.ReadFile(name)
			for _, race := range strings.Split(string(text), "WARNING: DATA RACE")[1:] {
				if !strings.Contains(race, "charmbracelet/ultraviolet.") {
					x.t.Errorf("a data race:%s", race)
				}
			}
		}
	})
}

// Run starts a command on the terminal, in a session of its own, and returns how to wait for its end. It is killed with the test.
func (x *Terminal) Run(cmd *exec.Cmd) (wait func() error) {
	x.t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.Program, x.Program, x.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	x.watchRaces(cmd)
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	wait = sync.OnceValue(cmd.Wait)
	x.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = wait()
	})
	return wait
}

// Type sends text as if it was typed, or the bytes of keys.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.ours, text); err != nil {
		x.t.Fatal(err)
	}
}

// Keys, as terminals send them.
const (
	Enter  = "\r"
	Escape = "\x1b"
	Tab    = "\t"
	Up     = "\x1b[A"
	Down   = "\x1b[B"
	CtrlC  = "\x03"
	CtrlD  = "\x04"
)

// Paste sends text as a terminal sends a paste to a program that has asked for brackets around it.
func (x *Terminal) Paste(text string) { x.Type("\x1b[200~" + text + "\x1b[201~") }

// Resize changes the size, and tells the program.
func (x *Terminal) Resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	x.size(columns, rows)
}

func (x *Terminal) size(columns, rows int) {
	x.t.Helper()
	raw, err := x.ours.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// Screen returns the lines on the screen, without the empty ones at its end.
func (x *Terminal) Screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lines(0)
}

// All returns the lines that have left the screen, and those on it.
func (x *Terminal) All() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out strings.Builder
	for _, line := range x.screen.Scrollback().Lines() {
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String() + x.lines(0)
}

// lines are those on the screen from one on. The lock is held.
func (x *Terminal) lines(from int) string {
	var out []string
	for y := from; y < x.screen.Height(); y++ {
		var line strings.Builder
		for column := 0; column < x.screen.Width(); {
			cell := x.screen.CellAt(column, y)
			if cell == nil || cell.Width == 0 {
				column++
				continue
			}
			line.WriteString(cell.Content)
			column += cell.Width
		}
		out = append(out, strings.TrimRight(line.String(), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// Raw returns everything that the program wrote.
func (x *Terminal) Raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw.String()
}

// Await waits until the screen shows a text.
func (x *Terminal) Await(text string) {
	x.t.Helper()
	x.AwaitThat("the screen shows "+strconv.Quote(text), func() bool { return strings.Contains(x.Screen(), text) })
}

// AwaitGone waits until the screen does not show a text.
func (x *Terminal) AwaitGone(text string) {
	x.t.Helper()
	x.AwaitThat("the screen does not show "+strconv.Quote(text), func() bool { return !strings.Contains(x.Screen(), text) })
}

// AwaitThat waits until something is true, which it looks at whenever the program has written.
func (x *Terminal) AwaitThat(what string, true func() bool) {
	x.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !true() {
		select {
		case <-x.changed:
		case <-limit.C:
			x.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
