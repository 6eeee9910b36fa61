//go:build linux

package supervise

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper decides whether a thread has to wait for every process that ends. None has to while there are only short commands: the goroutine
// that starts one waits for it (fastpath.go), and it leaves no process behind. So no second thread wakes up for each of them.
type reaper struct {
	onDuty atomic.Bool
	called chan struct{}
}

func newReaper() reaper { return reaper{called: make(chan struct{}, 1)} }

// call puts the reaper on duty. It also reaps what has ended before.
func (r *reaper) call() {
	r.onDuty.Store(true)
	select {
	case r.called <- struct{}{}:
	default:
	}
}

// reap waits for every process that ends, ours or orphaned, until the supervisor ends.
func (s *spawner) reap() {
	for {
		if !s.reaper.onDuty.Load() {
			<-s.reaper.called
			continue
		}
		if pid, err := s.wait(-1, 0); pid <= 0 && err == syscall.ECHILD {
			<-s.reaper.called
		}
	}
}

// wait waits for such processes and reaps the one that has ended. It first checks whether any process was started after it, because its id
// can be reused once it is reaped.
func (s *spawner) wait(which, options int) (int, error) {
	for {
		pid, err := which, error(nil)
		if which < 0 {
			pid, err = peek(options)
		}
		if err == nil && pid > 0 {
			childless := s.starts.none(pid)
			var status syscall.WaitStatus
			var usage syscall.Rusage
			if pid, err = syscall.Wait4(pid, &status, options, &usage); pid > 0 {
				s.bury(pid, status, usage, childless)
			}
			if which < 0 && err == syscall.ECHILD {
				continue // the goroutine that started it was faster
			}
		}
		if err != syscall.EINTR {
			return pid, err
		}
	}
}

// peek waits for any process that ends and leaves it unreaped. Package unix does not name the process id in siginfo_t, which follows three
// ints and the padding of a pointer; see waitid(2).
func peek(options int) (pid int, err error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|options, nil); err != nil {
		return 0, err
	}
	const ints, word = 12, unsafe.Sizeof(uintptr(0))
	at := (ints + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), nil
}

// collect reaps a child whose pidfd reports its end, unless the reaper does it. It reports whether the child is reaped: a child that
// another process traces is kept until that process releases it.
func (s *spawner) collect(c *child) bool {
	if pid, err := s.wait(c.pid, syscall.WNOHANG); pid == 0 && err == nil {
		return false
	}
	<-c.exited
	return true
}

// handOver makes the reaper wait for a child.
func (s *spawner) handOver(c *child) {
	c.closeHandle()
	s.reaper.call()
}

func (c *child) closeHandle() {
	if c.handle >= 0 {
		unix.Close(c.handle)
		c.handle = -1
	}
}

// relieveReaper takes the reaper off duty if only our own processes are left. guard.fire waits for the parked helper.
func (s *supervisor) relieveReaper() {
	s.scanner.mu.Lock() // before the other lock, as in a scan
	defer s.scanner.mu.Unlock()
	s.spawner.mu.Lock() // nothing is started meanwhile
	defer s.spawner.mu.Unlock()
	for _, c := range s.spawner.children {
		if c.tag != 0 {
			return
		}
	}
	for _, pid := range s.scanner.pids() {
		if s.spawner.children[pid] == nil {
			return
		}
	}
	s.spawner.reaper.onDuty.Store(false)
}

func (s *spawner) bury(pid int, status syscall.WaitStatus, usage syscall.Rusage, childless bool) {
	s.mu.Lock()
	c := s.children[pid]
	delete(s.children, pid)
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.status, c.childless = status, childless
	c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	c.peak = s.peak(usage)
	close(c.exited)
}

// peak returns the resident size of the largest process of a command, as far as its processes have waited for each other. Until it has
// called exec, a process has our memory, so a value that is not above ours is meaningless.
func (s *spawner) peak(usage syscall.Rusage) int64 {
	if usage.Maxrss <= s.ownPeak.Load() { // our own peak never falls
		return 0
	}
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return 0
	}
	s.ownPeak.Store(own.Maxrss)
	if usage.Maxrss <= own.Maxrss {
		return 0
	}
	return int64(usage.Maxrss) << 10
}
