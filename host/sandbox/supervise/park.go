//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parkedWord as the first argument makes this program a parked helper; the environment names the user.
const (
	parkedWord  = "parked"
	parkedUID   = "FLYNN_PARKED_UID"
	parkedGID   = "FLYNN_PARKED_GID"
	parkedFD    = 3
	parkTimeout = 10 * time.Second
	shotTimeout = time.Second
)

// guard keeps one helper process forked in advance, because at the process limit none can be started.
//
// The helper stays root while it waits, so the workload cannot signal it. When fired it takes the workload's user as its effective id and
// sends SIGKILL to everything that this user may signal. Its real and saved ids become nobody's: the kernel also matches a sender's real
// id, so as root's a kill(-1) would hit every root process; and it matches the saved and the real id of the receiver (kill(2)), so as the
// workload's they would let the workload stop the helper before it kills.
type guard struct {
	spawner  *spawner
	uid, gid int

	mu     sync.Mutex // one shot at a time
	helper *child
	line   *os.File // our end of the helper's socket
}

func newGuard(s *spawner, uid, gid int) *guard { return &guard{spawner: s, uid: uid, gid: gid} }

// park forks the helper and waits until it is ready.
func (g *guard) park() error {
	if single() {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("park helper: %w", err)
	}
	defer unix.Close(pair[1])
	line := os.NewFile(uintptr(pair[0]), "helper")
	if err := unix.SetNonblock(pair[1], false); err != nil {
		return fmt.Errorf("park helper: %w", err)
	}
	g.spawner.mu.Lock()
	helper, err := g.spawner.fork("/proc/self/exe", []string{"flynn-sandboxd", parkedWord}, &syscall.ProcAttr{
		Dir: "/",
		Env: []string{
			"GOMAXPROCS=1", "GOGC=off",
			parkedUID + "=" + strconv.Itoa(g.uid), parkedGID + "=" + strconv.Itoa(g.gid),
		},
		Files: []uintptr{uintptr(g.spawner.null), uintptr(g.spawner.null), 2, uintptr(pair[1])},
	})
	g.spawner.mu.Unlock()
	if err == nil {
		err = expect(line, parkTimeout)
	}
	if err != nil {
		line.Close()
		return fmt.Errorf("park helper: %w", err)
	}
	g.helper, g.line = helper, line
	return nil
}

// expect waits for the helper's one-byte answer.
func expect(line *os.File, limit time.Duration) error {
	if err := line.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	var b [1]byte
	_, err := line.Read(b[:])
	return err
}

// fire calls use with a function that makes the helper kill once and reports whether it still can. Afterwards the helper is replaced by a
// new one.
func (g *guard) fire(use func(shot func() bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if single() { // all processes but this one are the workload's, and this one the kernel spares
		use(func() bool { return unix.Kill(-1, unix.SIGKILL) == nil })
		return
	}
	if g.helper == nil && g.park() != nil {
		return
	}
	use(func() bool {
		_, err := g.line.Write([]byte{'k'})
		return err == nil && expect(g.line, shotTimeout) == nil
	})
	g.line.Close() // the helper notices and exits
	_, _ = g.spawner.wait(g.helper.pid, 0)
	<-g.helper.exited // the reaper may have reaped it already
	g.helper = nil
	_ = g.park() // at the limit this fails; the next call tries again
}

// runParked is the main function of the helper. It runs on one thread and allocates nothing once it waits, so it needs no other thread when
// fired.
func runParked() error {
	runtime.LockOSThread()
	uid, err1 := strconv.Atoi(os.Getenv(parkedUID))
	gid, err2 := strconv.Atoi(os.Getenv(parkedGID))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if uid <= 0 || gid <= 0 || os.Getppid() != 1 {
		return errors.New("a parked helper is started by the supervisor only")
	}
	byteAt := [1]byte{'r'}
	if !parkedWrite(&byteAt) || !parkedRead(&byteAt) {
		return nil
	}
	if err := borrowUser(uid, gid); err != nil {
		return err
	}
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		if !parkedWrite(&byteAt) || !parkedRead(&byteAt) {
			return nil
		}
	}
}

// nobodys is an id that no process has. A workload that happens to have it uses the next one.
const nobodys = firstTag + tagCount

// borrowUser changes this thread only, which is all that the kernel checks, and verifies the change.
func borrowUser(uid, gid int) error {
	own := nobodys
	if uid == own {
		own++
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return fmt.Errorf("become group %d: %w", gid, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(own), uintptr(uid), uintptr(own)); e != 0 {
		return fmt.Errorf("borrow user %d: %w", uid, e)
	}
	if r, e, s := unix.Getresuid(); r != own || e != uid || s != own {
		return fmt.Errorf("borrow user %d: ids are %d, %d, %d", uid, r, e, s)
	}
	return nil
}

func parkedWrite(b *[1]byte) bool {
	n, err := unix.Write(parkedFD, b[:])
	return n == 1 && err == nil
}

func parkedRead(b *[1]byte) bool {
	for {
		n, err := unix.Read(parkedFD, b[:])
		if err == unix.EINTR {
			continue
		}
		return n == 1 && err == nil
	}
}
