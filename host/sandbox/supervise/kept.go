//go:build linux

package supervise

import (
	"bytes"
	"encoding/json"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// openKept handles the host's request for the list of background commands.
func (s *supervisor) openKept(f frame.Frame) error {
	t := newTransfer(s, f.ID)
	if err := s.add(f.ID, t); err != nil {
		return err
	}
	go s.tellKept(t)
	return nil
}

// tellKept sends the list. Results of these commands, and connections to the proxy, must follow only after the whole list, so that a
// returning host receives no frame about something that it does not know.
func (s *supervisor) tellKept(t *transfer) {
	defer t.cancel()
	t.resume()
	defer t.yield()
	commands := s.background()
	running := make(map[*command]bool)
	lines := json.NewEncoder(t)
	for _, c := range commands {
		e, ok := c.tell()
		if !ok {
			continue
		}
		if err := lines.Encode(e); err != nil {
			s.fail(t.id, err)
			return
		}
		running[c] = e.Exit == nil
	}
	s.hostKnows(t.id, running)
	s.closeWith(t.id)
}

// hostKnows ends the list and releases what had to wait for it, unless the host is gone again.
func (s *supervisor) hostKnows(id uint32, running map[*command]bool) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.parted {
		return
	}
	s.send(frame.Frame{Type: frame.Reply, ID: id, Payload: []byte("{}")})
	for c, wasRunning := range running {
		c.rejoin(wasRunning)
	}
	s.outlet.resume()
}

// tell describes a command that has started.
func (c *command) tell() (frame.KeptEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.child == nil {
		return frame.KeptEntry{}, false
	}
	e := frame.KeptEntry{Request: c.id, Process: c.body.Process, PID: c.child.pid, Script: c.line(), Started: c.began.UnixNano()}
	if c.closed {
		e.Exit = &c.result
		c.told = true
	}
	return e, true
}

// line returns the command as one line, for people.
func (c *command) line() []byte {
	if c.body.Argv == nil {
		return c.body.Script
	}
	line := bytes.Join(c.body.Argv, []byte(" "))
	return line[:min(len(line), frame.MaxScript)]
}

// rejoin lets the command send frames again, and sends what it could not send since tell.
func (c *command) rejoin(wasRunning bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted = false
	if wasRunning && c.closed && !c.told {
		c.told = true
		c.s.send(frame.Frame{Type: frame.Exit, ID: c.id, Payload: frame.Encode(c.result)})
	}
}

func (c *command) hasStarted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.child != nil
}
