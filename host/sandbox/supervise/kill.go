//go:build linux

package supervise

import (
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// The time for each step of the kill ladder before the next one is tried.
const (
	termGrace  = 250 * time.Millisecond
	killGrace  = 100 * time.Millisecond
	sweepGrace = 3 * time.Second // the next step ends the session's other commands, which must not happen only because the machine is slow
	uidGrace   = time.Second
)

// end escalates until no process that carries the child's tag is left, and reports the step that achieved it. The last step kills all
// processes of the workload's user, and with them the session's other commands, so it is used only when the exact ones have failed. If
// anything survives it, the host removes the container.
func (s *supervisor) end(c *child) frame.KillBody {
	began := time.Now()
	rungs := []struct {
		name string
		try  func() int
	}{
		{"term", func() int { return s.endGroup(c, syscall.SIGTERM, termGrace) }},
		{"kill", func() int { return s.endGroup(c, syscall.SIGKILL, killGrace) }},
		{"sweep", func() int { return s.endAll(tagIs(c.tag)) }},
		{"uid", func() int { return s.endUser(c.tag) }},
	}
	var result frame.KillBody
	for _, r := range rungs {
		result.Rung = r.name
		if result.Survivors = r.try(); result.Survivors == 0 {
			result.Survivors = s.scanner.count(tagIs(c.tag))
		}
		if result.Survivors == 0 {
			break
		}
	}
	result.Took = time.Since(began)
	return result
}

// endGroup signals the child's process group and waits for its end. It does not wait for processes that have left the group, because the
// signal does not reach them.
func (s *supervisor) endGroup(c *child, sig syscall.Signal, grace time.Duration) int {
	s.spawner.signalGroup(c, sig)
	left := 0
	poll(grace, func() bool {
		inGroup := 0
		found := s.scanner.find(tagIs(c.tag))
		for _, p := range found {
			if p.group == c.pid {
				inGroup++
			}
		}
		left = len(found)
		return inGroup == 0
	})
	return left
}

// endAll stops every process with such a tag before it kills any. A killed process makes room for another one under the process limit, a
// stopped one does not, so stopping converges even against a fork bomb.
func (s *supervisor) endAll(such func(tag int) bool) int {
	left := 0
	poll(sweepGrace, func() bool {
		s.freeze(such)
		for _, p := range s.scanner.find(such) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		left = s.scanner.count(such)
		return left == 0
	})
	return left
}

// freezePasses bounds the scans of one freeze; each stops the processes that the previous one missed.
const freezePasses = 20

// freeze stops every process with such a tag, and returns the processes that it has stopped.
func (s *supervisor) freeze(such func(tag int) bool) (stopped map[int]bool) {
	stopped = make(map[int]bool)
	for range freezePasses {
		fresh := 0
		for _, p := range s.scanner.find(such) {
			if !stopped[p.pid] && !p.stopped {
				stopped[p.pid] = true
				fresh++
				_ = syscall.Kill(p.pid, syscall.SIGSTOP)
			}
		}
		if fresh == 0 {
			break
		}
	}
	return stopped
}

// endOrphans makes room by ending what finished commands have left running, and reports whether there was anything.
func (s *supervisor) endOrphans() bool {
	if len(s.scanner.find(s.spawner.isOrphan)) == 0 {
		return false
	}
	s.endAll(s.spawner.isOrphan)
	return true
}

func tagIs(want int) func(int) bool { return func(tag int) bool { return tag == want } }

// endUser makes the parked helper kill all processes of the workload's user.
func (s *supervisor) endUser(tag int) int {
	left := len(s.scanner.find(tagIs(tag)))
	s.guard.fire(func(shot func() bool) {
		poll(uidGrace, func() bool {
			armed := shot()
			left = s.scanner.count(tagIs(tag))
			return left == 0 || !armed
		})
	})
	return left
}

// poll calls done at growing intervals until it returns true or the time is up, and then once more.
func poll(limit time.Duration, done func() bool) {
	deadline := time.Now().Add(limit)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		late := time.Now().After(deadline)
		if done() || late {
			return
		}
		time.Sleep(pause) // the kernel reports only the end of direct children
	}
}

// leftGrace is how long processes that a command has left may take to end by themselves: the last program of a pipe for which the shell did
// not wait may still be busy when the shell ends.
const leftGrace = 50 * time.Millisecond

// endLeft ends what a command has left running when its shell ended, and returns nil if there was nothing. Usually there is nothing, and
// then no scan is needed: if no process was started after the shell, it has left none.
func (s *supervisor) endLeft(c *child) *frame.KillBody {
	if c.childless || s.scanner.count(tagIs(c.tag)) == 0 {
		return nil
	}
	left := 0
	poll(leftGrace, func() bool {
		left = s.scanner.count(tagIs(c.tag))
		return left == 0
	})
	if left == 0 {
		return nil
	}
	certificate := s.end(c)
	return &certificate
}
