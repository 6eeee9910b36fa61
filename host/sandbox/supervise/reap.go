//go:build linux

package supervise

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reaper reports whether a thread has to wait for any process that ends. None has to while there are only short commands: the goroutine
// that starts one waits for it (fastpath.go), and it leaves no process behind. So no second thread wakes up with each of them.
type reaper struct {
	onDuty atomic.Bool
	called chan struct{}
}

func newReaper() reaper { return reaper{called: make(chan struct{}, 1)} }

// call puts the reaper on duty. It reaps what has ended before as well.
func (r *reaper) call() {
	r.onDuty.Store(true)
	select {
	case r.called <- struct{}{}:
	default:
	}
}

// reap waits for every process that ends, ours or orphaned, for as long as we live.
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

// wait waits for such processes and reaps the one that has ended. It first looks whether any process was started after it: once reaped,
// its id can be given out again.
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

// peek waits for any process that ends and leaves it as it is. Of what it fills in, siginfo_t, package unix does not name the
// process id, which follows three ints and a pointer's alignment; see waitid(2).
func peek(options int) (pid int, err error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|options, nil); err != nil {
		return 0, err
	}
	const ints, word = 12, unsafe.Sizeof(uintptr(0))
	at := (ints + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at))), nil
}

// collect buries a child whose handle says that it has ended, or sees the reaper do it. It reports whether the child is reaped:
// one that another process traces is kept until that process lets go.
func (s *spawner) collect(c *child) bool {
	if pid, err := s.wait(c.pid, syscall.WNOHANG); pid == 0 && err == nil {
		return false
	}
	<-c.exited
	return true
}

// handOver leaves the waiting for a child to the reaper.
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
	s.scanner.mu.Lock() // before the other one, as in a scan
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

// peak is the resident size of the largest process of a command, as far as its own have waited for each other. Until it has
// called exec a process counts with our memory, so what is not above ours says nothing.
func (s *spawner) peak(usage syscall.Rusage) int64 {
	if usage.Maxrss <= s.ownPeak.Load() { // ours never falls
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
