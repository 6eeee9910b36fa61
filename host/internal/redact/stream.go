package redact

import (
	"bytes"
	"io"
	"slices"
)

// minInStream is the shortest secret that a Stream looks for; shorter ones occur by chance.
const minInStream = 6

// Stream removes secrets from bytes on their way into a sandbox, as from an answer that repeats a credential. Each becomes as many
// asterisks, so that lengths stay. It finds a secret across the pieces of a stream, but in no other encoding than its own: it is the last
// line of defence, and no other may rely on it.
type Stream struct {
	secrets [][]byte
	held    []byte // the end of what came, if a secret may begin in it
}

// NewStream returns a Stream for secrets; it ignores those that are too short.
func NewStream(secrets ...string) *Stream {
	s := &Stream{}
	for _, secret := range secrets {
		if len(secret) >= minInStream {
			s.secrets = append(s.secrets, []byte(secret))
		}
	}
	slices.SortFunc(s.secrets, longestFirst)
	return s
}

// Next takes the stream's next bytes and returns those that cannot be part of a secret any more.
func (s *Stream) Next(p []byte) []byte {
	if len(s.secrets) == 0 {
		return p
	}
	text := append(s.held, p...)
	settled := len(text) - s.unsettled(text)
	s.blot(text, settled)
	s.held = bytes.Clone(text[settled:])
	return text[:settled]
}

// Rest returns what was held back, at the stream's end.
func (s *Stream) Rest() []byte {
	rest := s.held
	s.held = nil
	s.blot(rest, len(rest))
	return rest
}

// Cut is Rest for a stream that was cut off. It masks all that was held back: an attacker who chooses where to cut would get all but
// the last byte of a secret.
func (s *Stream) Cut() []byte {
	rest := bytes.Repeat([]byte{'*'}, len(s.held))
	s.held = nil
	return rest
}

// String removes the secrets from a whole text.
func (s *Stream) String(text string) string {
	p := []byte(text)
	s.blot(p, len(p))
	return string(p)
}

// blot masks the secrets that begin before end.
func (s *Stream) blot(text []byte, end int) {
	for _, secret := range s.secrets {
		for at := 0; ; {
			i := bytes.Index(text[at:], secret)
			if at += i; i < 0 || at >= end {
				break
			}
			for n := range secret {
				text[at+n] = '*'
			}
			at += len(secret)
		}
	}
}

// unsettled counts the bytes at the end that may begin a secret.
func (s *Stream) unsettled(text []byte) int {
	most := 0
	for _, secret := range s.secrets {
		for n := min(len(secret)-1, len(text)); n > most; n-- {
			if bytes.HasSuffix(text, secret[:n]) {
				most = n
			}
		}
	}
	return most
}

// Reader returns src without the secrets.
func Reader(src io.Reader, secrets ...string) io.Reader {
	s := NewStream(secrets...)
	if len(s.secrets) == 0 {
		return src
	}
	return &reader{src: src, stream: s}
}

type reader struct {
	src    io.Reader
	stream *Stream
	ready  []byte
	err    error
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		n, err := r.src.Read(p)
		r.ready, r.err = bytes.Clone(r.stream.Next(p[:n])), err
		switch {
		case err == io.EOF:
			r.ready = append(r.ready, r.stream.Rest()...)
		case err != nil:
			r.ready = append(r.ready, r.stream.Cut()...)
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	if len(r.ready) > 0 {
		return n, nil
	}
	return n, r.err
}
