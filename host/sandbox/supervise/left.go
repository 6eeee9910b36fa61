//go:build linux

package supervise

import (
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

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
