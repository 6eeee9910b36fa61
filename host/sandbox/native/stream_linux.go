package native

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// stream is the connection to a sandbox's first process: a socket, which is its standard input and output, and two pipes, one for its standard
// error and one to which it reports why it could not be set up.
type stream struct {
	conn, errors, report *os.File // our ends
	connFar, far, repFar *os.File // those of the process
	stderr               io.Writer
}

var _ driver.Stream = (*stream)(nil)

// open makes the socket and the pipes.
func (s *stream) open() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	s.conn, s.connFar = os.NewFile(uintptr(fds[0]), "sandbox"), os.NewFile(uintptr(fds[1]), "sandbox")
	if s.errors, s.far, err = os.Pipe(); err != nil {
		return err
	}
	s.report, s.repFar, err = os.Pipe()
	return err
}

// started closes the ends that the process has now.
func (s *stream) started() { closeFiles(s.connFar, s.far, s.repFar) }

// copyErrors copies the process's standard error until that ends.
func (s *stream) copyErrors() {
	go func() {
		defer s.errors.Close()
		_, _ = io.Copy(s.stderr, s.errors)
	}()
}

// adopt makes this the stream of a process that was started with another.
func (s *stream) adopt(other *stream) {
	s.conn, s.errors, s.report = other.conn, other.errors, other.report
	s.copyErrors()
}

// abandon closes everything of a stream whose process was never started.
func (s *stream) abandon() {
	closeFiles(s.conn, s.errors, s.report, s.connFar, s.far, s.repFar)
}

// Read returns why the process could not be set up, where that is why there is nothing.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	if n == 0 && (err == io.EOF || errors.Is(err, unix.ECONNRESET)) {
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

func (s *stream) Write(p []byte) (int, error)        { return s.conn.Write(p) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

// Close ends the process's input, and with that the process.
func (s *stream) Close() error { return errors.Join(s.conn.Close(), s.report.Close()) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
