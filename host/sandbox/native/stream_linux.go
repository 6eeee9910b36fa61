package native

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// stream is the connection to a sandbox's first process by three pipes, and a fourth to which it reports why it could not be set up.
type stream struct {
	in, out, errors, report    *os.File // our ends
	inFar, outFar, far, repFar *os.File // those of the process
	stderr                     io.Writer
}

var _ driver.Stream = (*stream)(nil)

// open makes the pipes.
func (s *stream) open() error {
	var err [4]error
	s.inFar, s.in, err[0] = os.Pipe()
	s.out, s.outFar, err[1] = os.Pipe()
	s.errors, s.far, err[2] = os.Pipe()
	s.report, s.repFar, err[3] = os.Pipe()
	return errors.Join(err[:]...)
}

// started closes the ends that the process has now.
func (s *stream) started() { closeFiles(s.inFar, s.outFar, s.far, s.repFar) }

// copyErrors copies the process's standard error until that ends.
func (s *stream) copyErrors() {
	go func() {
		defer s.errors.Close()
		_, _ = io.Copy(s.stderr, s.errors)
	}()
}

// adopt makes this the stream of a process that was started with another.
func (s *stream) adopt(other *stream) {
	s.in, s.out, s.errors, s.report = other.in, other.out, other.errors, other.report
	s.copyErrors()
}

// abandon closes everything of a stream whose process was never started.
func (s *stream) abandon() {
	closeFiles(s.in, s.out, s.errors, s.report, s.inFar, s.outFar, s.far, s.repFar)
}

// Read returns why the process could not be set up, where that is why there is nothing.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if n == 0 && err == io.EOF {
		if why := s.outcome(); why != nil {
			err = why
		}
	}
	return n, err
}

// outcome returns why the process could not be set up, or nil. It waits until the process executes its program.
func (s *stream) outcome() error {
	if err := within.Outcome(s.report); err != nil {
		return explain(err)
	}
	return nil
}

func (s *stream) Write(p []byte) (int, error)        { return s.in.Write(p) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.in.SetWriteDeadline(t) }

// Close ends the process's input, and with that the process.
func (s *stream) Close() error { return errors.Join(s.in.Close(), s.out.Close(), s.report.Close()) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
