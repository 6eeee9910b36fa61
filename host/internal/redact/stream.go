package redact

import (
	"bytes"
	"io"
	"slices"
)

// minInStream is the shortest text that is looked for; shorter ones occur by chance.
const minInStream = 6

// Stream takes secrets out of bytes on their way into a sandbox, where the other side repeats what it was given: each becomes as many asterisks,
// so that lengths stay. It finds a secret as it was written, however it is cut into pieces, and in no other encoding: it is the last line
// of defence, and no other may rest on it.
type Stream struct {
	secrets [][]byte
	held    []byte // the end of what came, if a secret may begin in it
}

// NewStream returns a Stream for secrets; those that are too short to be told from chance are left out.
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

// Next takes the stream's next bytes and returns those that are settled.
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

// Cut returns what was held back where the stream does not end by itself but was cut: the beginning of a secret is blotted out
// then, of which an attacker who can choose the place of the cut would get all but the last byte.
func (s *Stream) Cut() []byte {
	rest := bytes.Repeat([]byte{'*'}, len(s.held))
	s.held = nil
	return rest
}

// String scrubs a text that is complete.
func (s *Stream) String(text string) string {
	p := []byte(text)
	s.blot(p, len(p))
	return string(p)
}

// blot blots out what begins before the end given.
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

// unsettled is how many bytes at the end may be the beginning of a secret.
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
