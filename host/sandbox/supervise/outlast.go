//go:build linux

package supervise

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// settleTimeout bounds ending what waits for the host that is gone; the kill ladder needs most of it.
	settleTimeout = 6 * time.Second
	// The control socket of a host that may be back is tried at growing intervals.
	redialFirst = 10 * time.Millisecond
	redialMost  = time.Second
	// adoptTimeout bounds the exchange of proofs.
	adoptTimeout = 5 * time.Second
)

// outlast continues without the host, for the sake of background commands or because the host wanted it, until another host takes over, and
// returns its frames. It returns nil if there is no reason to, or no host came within the lease.
func (s *supervisor) outlast() *incoming {
	keeps := s.lease.keeps()
	worth := keeps || s.lease.holds() && s.atWork()
	s.part()
	if !worth || !s.settle() || !keeps && len(s.background()) == 0 {
		return nil
	}
	var host io.ReadWriteCloser
	for pause := redialFirst; s.lease.holds(); pause = min(2*pause, redialMost) {
		if s.hello.ControlSocket != "" {
			if control, err := dial(s.hello.ControlSocket); err == nil {
				host = control
			}
		}
		if in := s.rejoin(host); in != nil {
			return in
		}
		host = nil
		select {
		case host = <-s.hosts:
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

// rejoin returns the frames of a host, once both have proved their identity. host may be nil.
func (s *supervisor) rejoin(host io.ReadWriteCloser) *incoming {
	if host == nil {
		return nil
	}
	in := newIncoming(host)
	if err := s.prove(host, in.Reader); err != nil || !s.lease.revive() {
		host.Close()
		return nil
	}
	s.out.attach(host)
	s.closing.Lock()
	s.parted = false
	s.closing.Unlock()
	return in
}

var (
	errStranger = errors.New("the peer is not our host")
	errLate     = errors.New("the host does not prove its identity in time")
)

// prove answers the host's challenge and checks its answer to ours.
func (s *supervisor) prove(host io.ReadWriteCloser, reader *frame.Reader) (err error) {
	late := time.AfterFunc(adoptTimeout, func() { host.Close() })
	defer late.Stop()
	var x frame.Exchange
	if x.Host, err = nextAdopt(reader); err != nil {
		return err
	}
	x.Supervisor = frame.AdoptBody{Challenge: make([]byte, frame.SecretSize), Epoch: s.epoch}
	rand.Read(x.Supervisor.Challenge) // never fails; see its documentation
	x.Supervisor.Proof = frame.SupervisorSide.Prove(s.lease.secret, x)
	if err := frame.NewWriter(host).Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(x.Supervisor)}); err != nil {
		return err
	}
	answered, err := nextAdopt(reader)
	if err != nil {
		return err
	}
	if x.Taken() || !frame.HostSide.Proven(answered.Proof, s.lease.secret, x) {
		return errStranger
	}
	if !late.Stop() {
		return errLate
	}
	s.epoch = x.Host.Epoch
	return nil
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
