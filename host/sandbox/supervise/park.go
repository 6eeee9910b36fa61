//go:build linux

package supervise

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
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
	spawner *spawner

	mu     sync.Mutex // one shot at a time
	helper *child
	line   *os.File // our end of the helper's socket
}

func newGuard(s *spawner) *guard { return &guard{spawner: s} }

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
	helper, err := g.spawner.copyOf(beParked, unsafe.Pointer(&parked{line: uintptr(pair[1])}))
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
	order := newOrder(g.spawner.uid, g.spawner.gid)
	use(func() bool {
		_, err := g.line.Write(order)
		return err == nil && expect(g.line, shotTimeout) == nil
	})
	g.line.Close() // the helper notices and exits
	_, _ = g.spawner.wait(g.helper.pid, 0)
	<-g.helper.exited // the reaper may have reaped it already
	g.helper = nil
	_ = g.park() // at the limit this fails; the next call tries again
}

// parked is what the helper needs. The helper is a copy of one thread of this process (package rawfork): it executes no program, allocates
// nothing, and its signals are blocked.
type parked struct {
	line                   uintptr
	real, effective, saved uint32 // as the kernel reports them
	answered               [1]byte
	order                  order
}

// order tells the helper to kill once: as a user with a group, with another user as the real one.
type order struct{ uid, gid, own uint32 }

// nobodys is an id that no process has. A workload that happens to have it uses the next one.
const nobodys = firstTag + tagCount

func newOrder(uid, gid int) []byte {
	o := order{uint32(uid), uint32(gid), nobodys}
	if o.own == o.uid {
		o.own++
	}
	return slices.Clone((*[unsafe.Sizeof(o)]byte)(unsafe.Pointer(&o))[:])
}

// beParked is the helper. It returns when the supervisor closes its end of the socket.
//
//go:nosplit
//go:norace
//go:nocheckptr
func beParked(arg unsafe.Pointer) {
	h := (*parked)(arg)
	h.closeOthers()
	if !h.answer() || !h.borrowUser() {
		return
	}
	for {
		syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
		if !h.answer() {
			return
		}
	}
}

// answer sends a byte and waits for the next order.
//
//go:nosplit
//go:norace
func (h *parked) answer() bool {
	if n, _, e := syscall.RawSyscall(unix.SYS_WRITE, h.line, uintptr(unsafe.Pointer(&h.answered)), 1); n != 1 || e != 0 {
		return false
	}
	n, _, e := syscall.RawSyscall(unix.SYS_READ, h.line, uintptr(unsafe.Pointer(&h.order)), unsafe.Sizeof(h.order))
	return n == unsafe.Sizeof(h.order) && e == 0
}

// mostOpen is above the descriptors that the supervisor may have, see package docker.
const mostOpen = 1024

// closeOthers closes the copies of the supervisor's descriptors, so that their other ends notice when the supervisor closes one.
//
//go:nosplit
//go:norace
func (h *parked) closeOthers() {
	_, _, below := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, h.line-1, 0)
	_, _, above := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, h.line+1, uintptr(^uint32(0)), 0)
	if below == 0 && above == 0 {
		return
	}
	for fd := uintptr(0); fd < mostOpen; fd++ { // Linux before 5.9
		if fd != h.line {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
}

// borrowUser takes the workload's user, and reports whether it has.
//
//go:nosplit
//go:norace
func (h *parked) borrowUser() bool {
	uid, gid, own := uintptr(h.order.uid), uintptr(h.order.gid), uintptr(h.order.own)
	_, _, e1 := syscall.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid)
	_, _, e2 := syscall.RawSyscall(unix.SYS_SETRESUID, own, uid, own)
	_, _, e3 := syscall.RawSyscall(unix.SYS_GETRESUID, uintptr(unsafe.Pointer(&h.real)), uintptr(unsafe.Pointer(&h.effective)), uintptr(unsafe.Pointer(&h.saved)))
	return e1 == 0 && e2 == 0 && e3 == 0 && h.real == h.order.own && h.effective == h.order.uid && h.saved == h.order.own
}
