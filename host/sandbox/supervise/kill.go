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
	sweepGrace = time.Second
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
		{"sweep", func() int { return s.endTagged(c.tag) }},
		{"uid", func() int { return s.endUser(c.tag) }},
	}
	var verdict frame.KillBody
	for _, r := range rungs {
		verdict.Rung = r.name
		if verdict.Survivors = r.try(); verdict.Survivors == 0 {
			break
		}
	}
	verdict.Took = time.Since(began)
	return verdict
}

// endGroup signals the child's process group and waits for it to go. It does not wait for
// processes that have left the group: this rung cannot reach them.
func (s *supervisor) endGroup(c *child, sig syscall.Signal, grace time.Duration) int {
	s.spawner.signalGroup(c, sig)
	left := 0
	poll(grace, func() bool {
		inGroup := 0
		found := s.scanner.tagged(c.tag)
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

// endTagged stops every tagged process before it kills any. A killed process makes room for
// another under the pids limit, a stopped one does not, so the stopping converges even
// against a fork bomb.
func (s *supervisor) endTagged(tag int) int {
	left := 0
	poll(sweepGrace, func() bool {
		s.freeze(tag)
		for _, p := range s.scanner.tagged(tag) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		left = len(s.scanner.tagged(tag))
		return left == 0
	})
	return left
}

// freezePasses bounds the scans of one freeze; each halts what the one before let slip.
const freezePasses = 20

func (s *supervisor) freeze(tag int) {
	stopped := make(map[int]bool)
	for range freezePasses {
		fresh := 0
		for _, p := range s.scanner.tagged(tag) {
			if !stopped[p.pid] {
				stopped[p.pid] = true
				fresh++
				_ = syscall.Kill(p.pid, syscall.SIGSTOP)
			}
		}
		if fresh == 0 {
			return
		}
	}
}

// endUser has the parked helper kill everything that the workload's user runs.
func (s *supervisor) endUser(tag int) int {
	left := len(s.scanner.tagged(tag))
	s.guard.fire(func(shot func() bool) {
		poll(uidGrace, func() bool {
			armed := shot()
			left = len(s.scanner.tagged(tag))
			return left == 0 || !armed
		})
	})
	return left
}

// poll calls done at growing intervals until it says so or the time is up. The last call comes
// after the time is up.
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
