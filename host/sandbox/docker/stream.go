package docker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// stream is an attached container. The engine interleaves stdout and stderr in pieces with an 8-byte header: stream number, three zeros,
// length (Docker Engine API, "Stream format").
type stream struct {
	net.Conn
	src    io.Reader
	stderr io.Writer
	left   int // remaining bytes of the current piece of stdout
}

const (
	pieceHeader = 8
	stdoutPiece = 1
	stderrPiece = 2
)

// Read returns stdout only; stderr is written to its writer as it arrives.
func (s *stream) Read(p []byte) (int, error) {
	for s.left == 0 {
		if err := s.nextPiece(); err != nil {
			return 0, err
		}
	}
	n, err := s.src.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func (s *stream) nextPiece() error {
	var h [pieceHeader]byte
	if _, err := io.ReadFull(s.src, h[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(h[4:])
	switch h[0] {
	case stdoutPiece:
		s.left = int(size)
		return nil
	case stderrPiece:
		_, err := io.CopyN(s.stderr, s.src, int64(size))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return fmt.Errorf("engine sent a piece of stream %d", h[0])
}
