package native

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// stream is the connection to a sandbox's first process by three pipes.
type stream struct {
	in, out            *os.File // our ends
	inFar, outFar, far *os.File // those of the process
	errors             *os.File
	stderr             io.Writer
}

var _ driver.Stream = (*stream)(nil)

func newStream(stderr io.Writer) (*stream, error) {
	s := &stream{stderr: stderr}
	var err [3]error
	s.inFar, s.in, err[0] = os.Pipe()
	s.out, s.outFar, err[1] = os.Pipe()
	s.errors, s.far, err[2] = os.Pipe()
	if all := errors.Join(err[:]...); all != nil {
		s.abandon()
		return nil, all
	}
	return s, nil
}

// started closes the ends that the process has now, and copies its standard error.
func (s *stream) started() {
	closeFiles(s.inFar, s.outFar, s.far)
	go func() {
		defer s.errors.Close()
		_, _ = io.Copy(s.stderr, s.errors)
	}()
}

// abandon closes everything of a stream whose process was never started.
func (s *stream) abandon() { closeFiles(s.in, s.out, s.inFar, s.outFar, s.far, s.errors) }

func (s *stream) Read(p []byte) (int, error)         { return s.out.Read(p) }
func (s *stream) Write(p []byte) (int, error)        { return s.in.Write(p) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.in.SetWriteDeadline(t) }

// Close ends the process's input, and with that the process.
func (s *stream) Close() error { return errors.Join(s.in.Close(), s.out.Close()) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
