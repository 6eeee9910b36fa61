package resume

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// A connection begins with the host's hello, which the supervisor answers. All numbers are big endian.
//
//	hello   8 bytes magic, 16 bytes session, 8 bytes epoch, 8 bytes received
//	answer  8 bytes magic, 1 byte status, 7 bytes zero, 8 bytes epoch, 8 bytes received
//
// A session is the random name of one stream; received is how many bytes of the stream the sender has.
const (
	magic      = "flynn\x00r1"
	helloSize  = 40
	answerSize = 32
)

type session [16]byte

func newSession() (name session) {
	rand.Read(name[:]) // never fails; see its documentation
	return name
}

type hello struct {
	session  session
	epoch    uint64
	received uint64
}

// status is what the supervisor says to a hello.
type status byte

const (
	welcome status = 0
	taken   status = 1 // another host has the sandbox
	over    status = 2 // there is no such stream any more, or the host cannot have received so much or so little of it
)

type answer struct {
	status   status
	epoch    uint64
	received uint64
}

func (h hello) write(w io.Writer) error {
	p := append([]byte(magic), h.session[:]...)
	p = binary.BigEndian.AppendUint64(p, h.epoch)
	p = binary.BigEndian.AppendUint64(p, h.received)
	_, err := w.Write(p)
	return err
}

func readHello(r io.Reader) (h hello, err error) {
	var p [helloSize]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return h, err
	}
	copy(h.session[:], p[8:])
	h.epoch, h.received = binary.BigEndian.Uint64(p[24:]), binary.BigEndian.Uint64(p[32:])
	if string(p[:8]) != magic || h.epoch == 0 {
		return h, fmt.Errorf("%w begins with %.8q", errProtocol, p[:8])
	}
	return h, nil
}

func (a answer) write(w io.Writer) error {
	p := append([]byte(magic), byte(a.status), 0, 0, 0, 0, 0, 0, 0)
	p = binary.BigEndian.AppendUint64(p, a.epoch)
	p = binary.BigEndian.AppendUint64(p, a.received)
	_, err := w.Write(p)
	return err
}

func readAnswer(r io.Reader) (a answer, err error) {
	var p [answerSize]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return a, err
	}
	a = answer{status(p[8]), binary.BigEndian.Uint64(p[16:]), binary.BigEndian.Uint64(p[24:])}
	if string(p[:8]) != magic || string(p[9:16]) != "\x00\x00\x00\x00\x00\x00\x00" {
		return a, fmt.Errorf("%w begins with %.8q", errProtocol, p[:8])
	}
	switch a.status {
	case welcome:
		return a, nil
	case taken:
		return a, fmt.Errorf("%w (epoch %d)", frame.ErrTaken, a.epoch)
	case over:
		return a, errOver
	}
	return a, fmt.Errorf("%w begins with status %d", errProtocol, a.status)
}
