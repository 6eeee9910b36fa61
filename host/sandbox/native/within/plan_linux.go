package within

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// plan is a list of system calls that turns a new process into the first one of a sandbox. It is made in advance, because that process is a
// fork without Go's runtime, which could not even format a path (package rawfork).
type plan struct {
	calls []call
	doing *step
	keep  []any // what the calls point to
	paths map[string]kind
	base  string // where the view is; "" once it is the root
	root  int32  // descriptor of the view's root
	errno uint32 // of the call that failed
}

// step is a group of calls, with a text that describes it in an error.
type step struct {
	text *byte
	size uintptr
}

// call is one system call.
type call struct {
	number  uintptr
	args    [6]uintptr
	in      [6]*int32 // arguments that earlier calls have returned
	out     *int32    // where the result goes; may be nil
	want    uintptr   // the result, unless 0
	forgive forgive
	step    *step
}

// forgive says which errors of a call are none.
type forgive uint8

const (
	forgiveNothing forgive = iota
	forgiveMissing
	forgiveExisting
	forgiveAll
)

// newPlan returns an empty plan, for a view that is at base.
func newPlan(base string, paths map[string]kind) *plan {
	return &plan{paths: paths, base: base, calls: make([]call, 0, usualCalls)}
}

// step begins a group of calls, which a text describes in an error.
func (p *plan) step(doing string) { p.doing = &step{unsafe.StringData(doing), uintptr(len(doing))} }

// do adds a call.
func (p *plan) do(number uintptr, args ...uintptr) *call {
	c := call{number: number, step: p.doing}
	copy(c.args[:], args)
	p.calls = append(p.calls, c)
	return &p.calls[len(p.calls)-1]
}

// with makes an argument what an earlier call has returned.
func (c *call) with(arg int, result *int32) *call {
	c.in[arg] = result
	return c
}

// descriptor adds a call that returns a descriptor.
func (p *plan) descriptor(number uintptr, args ...uintptr) (*call, *int32) {
	fd := new(int32)
	c := p.do(number, args...)
	c.out = fd
	return c, fd
}

// openPath opens a folder of this process's files, following links.
func (p *plan) openPath(path string, fd *int32) {
	p.do(unix.SYS_OPENAT, uintptr(cwd), p.text(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC).out = fd
}

func (p *plan) close(fd *int32) { p.do(unix.SYS_CLOSE).with(0, fd).forgive = forgiveAll }

// text returns the address of a text for the kernel.
func (p *plan) text(s string) uintptr {
	b := append([]byte(s), 0)
	return hold(p, &b[0])
}

// hold returns an address that stays valid as long as the plan.
func hold[T any](p *plan, v *T) uintptr {
	p.keep = append(p.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// texts returns the address of a list of texts, which a null pointer ends.
func (p *plan) texts(all []string) uintptr {
	list := make([]uintptr, len(all)+1)
	for i, s := range all {
		list[i] = p.text(s)
	}
	return hold(p, &list[0])
}

// cwd is AT_FDCWD as an argument.
var cwd = int32(unix.AT_FDCWD)

// run makes the calls in the new process, of which the last one executes a program or exits. See rawfork.Start for what it may not do.
//
//go:nosplit
//go:norace
//go:nocheckptr
func run(arg unsafe.Pointer) {
	p := (*plan)(arg)
	for i := 0; i < len(p.calls); i++ {
		c := &p.calls[i]
		a := c.args
		for n := range a {
			if c.in[n] != nil {
				a[n] = uintptr(*c.in[n])
			}
		}
		r, _, errno := syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
		if c.out != nil {
			*c.out = int32(r)
		}
		if errno == 0 && c.want != 0 && r != c.want {
			errno = unix.EPIPE
		}
		if errno == 0 || forgiven(c.forgive, errno) {
			continue
		}
		p.errno = uint32(errno)
		syscall.RawSyscall(unix.SYS_WRITE, reportFD, uintptr(unsafe.Pointer(&p.errno)), unsafe.Sizeof(p.errno))
		syscall.RawSyscall(unix.SYS_WRITE, reportFD, uintptr(unsafe.Pointer(c.step.text)), c.step.size)
		return
	}
}

//go:nosplit
//go:norace
func forgiven(f forgive, errno syscall.Errno) bool {
	switch f {
	case forgiveMissing:
		return errno == unix.ENOENT
	case forgiveExisting:
		return errno == unix.EEXIST
	}
	return f == forgiveAll
}
