package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// server is the process that starts sandboxes; see package within. It is started when it is needed, and ends with this process.
type server struct {
	mu   sync.Mutex
	conn *net.UnixConn // nil if it does not run
	last *os.Process   // the last one; nil before the first
	gone chan struct{} // closed when the last one has ended
}

// replyTimeout bounds the time until a sandbox was started. The server gives up before.
const replyTimeout = 15 * time.Second

// endTimeout bounds the time until the server ends by itself.
const endTimeout = 2 * time.Second

// start has a process started with these files, of which the last one is a control group's folder if r says so, and returns before it is set up.
// The files stay open.
func (s *server) start(ctx context.Context, program string, r within.Request, files ...*os.File) (pid int, process *os.File, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, nil, err
	}
	if len(text) > within.MaxMessage {
		return 0, nil, fmt.Errorf("the sandbox's description has more than %d bytes: remove mounts", within.MaxMessage)
	}
	reply, far, err := socketPair()
	if err != nil {
		return 0, nil, err
	}
	defer reply.Close()
	fds := []int{int(far.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	err = s.send(program, within.Config{IDs: r.Config.IDs, Single: r.Config.Single}, text, unix.UnixRights(fds...))
	far.Close()
	if err != nil {
		return 0, nil, err
	}
	return receive(ctx, reply)
}

// prepare tells the server, if it runs, that a request is about to come.
func (s *server) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_, _ = s.conn.Write([]byte(within.Prepare)) // the request reports a failure
	}
}

// send sends a request to the server, which it starts if it does not run.
func (s *server) send(program string, ids within.Config, text, rights []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := true; ; first = false {
		started := s.conn == nil
		if started {
			if err := s.run(program, ids); err != nil {
				return err
			}
		}
		_, _, err := s.conn.WriteMsgUnix(text, rights, nil)
		if err == nil {
			return nil
		}
		s.conn.Close()
		s.conn = nil
		if started || !first {
			return fmt.Errorf("ask %s for a sandbox: %w", program, err)
		}
	}
}

// run starts the server for sandboxes with these ids. s.mu is held.
func (s *server) run(program string, ids within.Config) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	near, far, err := socketPair()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: program, Args: []string{"flynn-sandboxd", within.Word}, Dir: "/", Env: []string{}, Stderr: os.Stderr, ExtraFiles: []*os.File{far},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a terminal's signals are the host's
	}
	err = cmd.Start()
	far.Close()
	if err != nil {
		near.Close()
		return err
	}
	gone := make(chan struct{})
	s.conn, s.last, s.gone = near, cmd.Process, gone
	go func() {
		defer close(gone)
		_ = cmd.Wait()
	}()
	_, _ = near.Write(text) // a server that is gone takes no request either
	return nil
}

// close ends the server.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	if s.last == nil {
		return
	}
	select {
	case <-s.gone:
	case <-time.After(endTimeout):
		_ = s.last.Kill()
		<-s.gone
	}
}

// receive waits for the server's reply.
func receive(ctx context.Context, reply *net.UnixConn) (pid int, process *os.File, err error) {
	deadline := time.Now().Add(replyTimeout)
	if until, ok := ctx.Deadline(); ok && until.Before(deadline) {
		deadline = until
	}
	if err := reply.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	text, rights := make([]byte, within.MaxReply), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := reply.ReadMsgUnix(text, rights)
	switch {
	case errors.Is(err, io.EOF), err == nil && n == 0:
		return 0, nil, errors.New("flynn-sandboxd ended")
	case err != nil:
		return 0, nil, fmt.Errorf("it was not started in time: %w", err)
	}
	process, err = fileOf(rights[:m])
	var r within.Reply
	switch {
	case json.Unmarshal(text[:n], &r) != nil, err != nil:
		return 0, nil, errors.New("flynn-sandboxd gave no valid reply")
	case r.Error != "":
		return 0, nil, refusal{r.Error, syscall.Errno(r.Errno)}
	case process == nil:
		return 0, nil, errors.New("flynn-sandboxd returned no process")
	}
	return r.PID, process, nil
}

// refusal is why the server started nothing.
type refusal struct {
	message string
	errno   syscall.Errno
}

func (r refusal) Error() string { return r.message }
func (r refusal) Unwrap() error { return r.errno }

// fileOf returns the file that came with a message, or nil.
func fileOf(rights []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "process"), nil
}

// socketPair returns the two ends of a socket that keeps messages apart.
func socketPair() (near *net.UnixConn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	far = os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(f)
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), far, nil
}
