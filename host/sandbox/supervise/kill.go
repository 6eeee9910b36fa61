//go:build linux

package supervise

import (
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// A rung of the kill ladder gets so long before the next one is tried.
const (
	termGrace  = 250 * time.Millisecond
	killGrace  = 100 * time.Millisecond
	sweepGrace = 3 * time.Second // the next one ends the session's other commands, which slowness alone must not
	uidGrace   = time.Second
)

// end climbs the ladder until no process carrying the child's tag is left, and certifies the rung
// that achieved it. The uid rung takes the session's other commands with it, so it comes only when
// the exact ones have failed. Whatever it leaves is for the host, which removes the container.
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

// endGroup signals the child's process group and waits for it to go. It does not wait for
// processes that have left the group: this rung cannot reach them.
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

// endAll stops every process with such a tag before it kills any. A killed process makes room for
// another under the pids limit, a stopped one does not, so the stopping converges even
// against a fork bomb.
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

// freezePasses bounds the scans of one freeze; each halts what the one before let slip.
const freezePasses = 20

// freeze stops every process with such a tag, and returns those that it has stopped.
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

// endOrphans makes room by ending what finished commands have left running, and reports whether there was any.
func (s *supervisor) endOrphans() bool {
	if len(s.scanner.find(s.spawner.isOrphan)) == 0 {
		return false
	}
	s.endAll(s.spawner.isOrphan)
	return true
}

func tagIs(want int) func(int) bool { return func(tag int) bool { return tag == want } }

// endUser has the parked helper kill everything that the workload's user runs.
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

// poll calls done at growing intervals until it returns true or the time is up. The last call comes after the time is up.
func poll(limit time.Duration, done func() bool) {
	deadline := time.Now().Add(limit)
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		late := time.Now().After(deadline)
		if done() || late {
			return
		}
		time.Sleep(pause) // the kernel announces only the end of direct children
	}
}

// leftGrace is how long what a command leaves behind may still take to end by itself: the last program of a pipe that the
// shell did not wait for has work to do when the shell ends.
const leftGrace = 50 * time.Millisecond

// endLeft ends what a command has left running when its shell ended, and returns nil if there was nothing. Commonly there is
// nothing, and then it costs no look: a shell after which no process was made has none to leave.
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
