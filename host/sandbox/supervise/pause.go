//go:build linux

package supervise

import (
	"syscall"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// pause stops or resumes the processes in a container that nobody uses, such as the image's own. The supervisor itself keeps running, so it
// notices the end of its host and of its lease.
func (s *supervisor) pause(body []byte) error {
	var b frame.PauseBody
	if err := frame.Decode(body, &b); err != nil {
		return err
	}
	if b.On {
		s.stilled = s.freeze(isTag)
		return nil
	}
	for _, p := range s.scanner.find(isTag) {
		if s.stilled[p.pid] {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	}
	s.stilled = nil
	return nil
}

// isTag reports whether a tag is one of those for commands.
func isTag(tag int) bool { return tag >= firstTag && tag < firstTag+tagCount }
