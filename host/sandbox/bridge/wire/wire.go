// Package wire is the protocol between a program in a sandbox and the host about a bridged command. A packet is one byte of kind, a length
// of four bytes, big endian, and the data.
//
// The program sends Call; the host answers with Output and Errors as they arrive and ends with Exit. If the command takes input, the host
// first asks for it with Input, and the program sends it in Input packets, the last of them empty. A program that hangs up ends the
// command. Both sides treat the other as hostile. The package is small and imports little, because it is part of the supervisor's binary.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind is the kind of a packet.
type Kind byte

// The kinds.
const (
	Call   Kind = 'c' // data: CallBody
	Input  Kind = 'i'
	Output Kind = 'o'
	Errors Kind = 'e'
	Exit   Kind = 'x' // data: one byte, the exit code
)

const (
	// MaxCall bounds a Call, MaxData any other packet.
	MaxCall = 1 << 20
	MaxData = 64 << 10

	headSize = 5
)

// CallBody is the command that the program asks for.
type CallBody struct {
	Name []byte   `json:"name"`
	Argv [][]byte `json:"argv,omitempty"` // without the program
	Dir  []byte   `json:"dir"`            // the program's working directory
}

// ErrMalformed is wrapped by every error that means that the peer broke the format.
var ErrMalformed = errors.New("malformed bridge packet")

// Write sends a packet.
func Write(w io.Writer, k Kind, p []byte) error {
	packet := make([]byte, headSize, headSize+len(p))
	packet[0] = byte(k)
	binary.BigEndian.PutUint32(packet[1:], uint32(len(p)))
	_, err := w.Write(append(packet, p...))
	return err
}

// Read reads the next packet. The error is io.EOF at a clean end.
func Read(r io.Reader) (Kind, []byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	k, size := Kind(head[0]), binary.BigEndian.Uint32(head[1:])
	if err := check(k, size); err != nil {
		return 0, nil, err
	}
	p := make([]byte, size)
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return k, p, nil
}

func check(k Kind, size uint32) error {
	most := uint32(MaxData)
	switch k {
	case Call:
		most = MaxCall
	case Input, Output, Errors:
	case Exit:
		if size != 1 {
			return fmt.Errorf("%w: exit of %d bytes", ErrMalformed, size)
		}
	default:
		return fmt.Errorf("%w: kind %#02x", ErrMalformed, byte(k))
	}
	if size > most {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, size)
	}
	return nil
}

// ParseCall parses the data of a Call strictly.
func ParseCall(p []byte) (CallBody, error) {
	var b CallBody
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return b, fmt.Errorf("%w: bytes after the call", ErrMalformed)
	}
	return b, nil
}
