package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// sshDialer connects with the system's ssh client to "docker system dial-stdio" on the engine's machine, as Docker's command line does.
// Keys, known hosts and jump hosts come from ssh and its configuration. It never prompts: a connection that needs a password, or the
// confirmation of an unknown host, fails.
func sshDialer(e engine.Address, more []string) dialer {
	args := append(more[:len(more):len(more)],
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		"-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-T")
	if e.User != "" {
		args = append(args, "-l", e.User)
	}
	if e.Port != "" {
		args = append(args, "-p", e.Port)
	}
	args = append(args, "--", e.Host, "docker")
	if e.Path != "" {
		args = append(args, "--host", "unix://"+e.Path)
	}
	args = append(args, "system", "dial-stdio")
	return func(ctx context.Context) (net.Conn, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return startPipe(exec.Command("ssh", args...), e.Host)
	}
}

// pipe is a connection over a program's standard streams. The program ends with the connection.
type pipe struct {
	net.Conn
	host    string
	cmd     *exec.Cmd
	stderr  lastWords
	ended   chan struct{}
	closing sync.Once

	heard atomic.Bool // whether the engine has sent anything
}

// startPipe gives the program one end of a socket pair as its input and output, because sockets support deadlines.
func startPipe(cmd *exec.Cmd, host string) (*pipe, error) {
	ends, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("connect to ssh: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	p := &pipe{host: host, cmd: cmd, ended: make(chan struct{})}
	if p.Conn, err = net.FileConn(ours); err != nil {
		return nil, fmt.Errorf("connect to ssh: %w", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, &p.stderr
	cmd.WaitDelay = time.Second // a child of ssh may keep its stderr open
	if err := cmd.Start(); err != nil {
		p.Conn.Close()
		return nil, fmt.Errorf("%w: install the ssh client", err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its stderr tells more
	}()
	return p, nil
}

// socketPair returns two sockets that no other child inherits. Not every system can create them so in one step.
func socketPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	return ends, err
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 {
		p.heard.Store(true)
	}
	return n, p.explain(err)
}

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	return n, p.explain(err)
}

// explain adds ssh's message to the error of a connection that ended before the engine sent anything.
func (p *pipe) explain(err error) error {
	if p.heard.Load() || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(time.Second):
	}
	if words := p.stderr.String(); words != "" {
		return fmt.Errorf("ssh to %s: %s", p.host, words)
	}
	return err
}

// CloseWrite closes the engine's input.
func (p *pipe) CloseWrite() error { return p.Conn.(*net.UnixConn).CloseWrite() }

// Close also ends the program and waits for it.
func (p *pipe) Close() error {
	err := net.ErrClosed
	p.closing.Do(func() {
		err = p.Conn.Close()
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.ended
	})
	return err
}

// lastWords keeps the end of what is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// maxWords bounds the part of ssh's message that an error quotes.
const maxWords = 512

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = bytes.Clone(l.text[max(0, len(l.text)-maxWords):])
	return len(p), nil
}

// String returns it as one line.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.FieldsFunc(string(l.text), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.ToValidUTF8(strings.Join(lines, "; "), "?")
}
