//go:build linux

package supervise

import (
	"cmp"
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// settleTimeout bounds ending what waits for the host that is gone; the kill ladder needs most of it.
	settleTimeout = 6 * time.Second
	// The socket of a host that may be back is tried at growing intervals.
	redialFirst = 10 * time.Millisecond
	redialMost  = time.Second
	// adoptTimeout bounds the exchange of proofs.
	adoptTimeout = 5 * time.Second
)

// outlast continues without the host, for the sake of background commands, until another host takes over, and returns its frames. It
// returns nil if there are no such commands, or no host came within the lease.
func (s *supervisor) outlast() *incoming {
	worth := s.lease.holds() && s.atWork()
	s.part()
	if !worth || !s.settle() || len(s.background()) == 0 {
		return nil
	}
	for pause := redialFirst; s.lease.holds(); pause = min(2*pause, redialMost) {
		if in := s.rejoin(); in != nil {
			return in
		}
		select {
		case <-s.lease.expired:
		case <-time.After(pause):
		}
	}
	return nil
}

// part ends everything that concerns the host that is gone. Frames sent to it are dropped from now on.
func (s *supervisor) part() {
	s.out.hangUp()
	s.closing.Lock()
	s.parted = true
	s.closing.Unlock()
	s.outlet.pause()
	for _, h := range s.handlers() {
		h.cut()
	}
}

// handlers returns the open requests.
func (s *supervisor) handlers() []handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.requests))
}

// settle waits until only background commands are left, and reports whether that is so: no frame meant for one host may reach the next.
func (s *supervisor) settle() bool {
	settled := false
	poll(settleTimeout, func() bool {
		settled = s.onlyBackground() && s.outlet.count(0) == 0
		return settled
	})
	s.closing.Lock() // the last frames are sent
	defer s.closing.Unlock()
	return settled
}

func (s *supervisor) onlyBackground() bool {
	return !slices.ContainsFunc(s.handlers(), func(h handler) bool {
		c, is := h.(*command)
		return !is || !c.body.Background || !c.hasStarted()
	})
}

// atWork reports whether a background command is running. The image's own process, which has no number, does not count.
func (s *supervisor) atWork() bool {
	return slices.ContainsFunc(s.background(), func(c *command) bool { return c.body.Process > 0 && c.isRunning() })
}

// background returns the commands that were started in the background and not forgotten, oldest first.
func (s *supervisor) background() []*command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.kept), func(a, b *command) int { return cmp.Compare(a.id, b.id) })
}

// rejoin connects to the host's socket, if it exists again, and returns its frames once both have proved their identity.
func (s *supervisor) rejoin() *incoming {
	control, err := dial(s.hello.ControlSocket)
	if err != nil {
		return nil
	}
	in := newIncoming(control)
	if err := s.prove(control, in.Reader); err != nil || !s.lease.revive() {
		control.Close()
		return nil
	}
	s.out.attach(control)
	s.closing.Lock()
	s.parted = false
	s.closing.Unlock()
	return in
}

var errStranger = errors.New("the peer at the control socket is not our host")

// prove answers the host's challenge and checks its answer to ours.
func (s *supervisor) prove(control *os.File, reader *frame.Reader) error {
	if err := control.SetDeadline(time.Now().Add(adoptTimeout)); err != nil {
		return err
	}
	asked, err := nextAdopt(reader)
	if err != nil {
		return err
	}
	challenge := make([]byte, frame.SecretSize)
	rand.Read(challenge) // never fails; see its documentation
	answer := frame.AdoptBody{Challenge: challenge, Proof: frame.SupervisorSide.Prove(s.lease.secret, asked.Challenge, challenge)}
	if err := frame.NewWriter(control).Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(answer)}); err != nil {
		return err
	}
	answered, err := nextAdopt(reader)
	if err != nil {
		return err
	}
	if !frame.HostSide.Proven(answered.Proof, s.lease.secret, asked.Challenge, challenge) {
		return errStranger
	}
	return control.SetDeadline(time.Time{})
}

func nextAdopt(reader *frame.Reader) (frame.AdoptBody, error) {
	var b frame.AdoptBody
	f, err := reader.Next()
	if err != nil {
		return b, err
	}
	if f.Type != frame.Adopt {
		return b, errStranger
	}
	return b, frame.Decode(f.Payload, &b)
}
