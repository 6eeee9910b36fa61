package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/flynnhost/flynn/host/internal/ps"
	"github.com/flynnhost/flynn/host/plugin/kind"
)

// runnerProcess is one operating system process with its group, its pipes and its lifeline. It implements go-plugin's Runner and
// shows the library only one checked handshake line.
//
// The standard input of the process is a pipe whose other end the host holds and never writes to: when the host dies for any reason, the
// kernel closes it, and the plugin sees the end of file.
type runnerProcess struct {
	cmd       *exec.Cmd
	output    *output
	socketDir string
	tls       bool

	line      *io.PipeReader // the handshake line, then EOF
	lineW     *io.PipeWriter
	quiet     *io.PipeReader // nothing, then EOF when the process is gone: go-plugin's view of standard error
	quietW    *io.PipeWriter
	lifeline  *os.File
	pipes     sync.WaitGroup // readers of stdout and stderr
	parentEnd []*os.File     // our ends of stdout and stderr

	mu      sync.Mutex
	process *os.Process
	killed  bool  // before it was started
	reaped  bool  // the pid may be reused from now on; guarded by mu together with every kill
	noise   error // error in the handshake line

	done chan struct{} // closed when the process is reaped and its pipes are drained
	exit error         // valid once done is closed
}

var _ runner.Runner = (*runnerProcess)(nil)

func newRunner(cmd *exec.Cmd, out *output, socketDir string, tls bool) *runnerProcess {
	r := &runnerProcess{cmd: cmd, output: out, socketDir: socketDir, tls: tls, done: make(chan struct{})}
	r.line, r.lineW = io.Pipe()
	r.quiet, r.quietW = io.Pipe()
	return r
}

// Start starts the process in its own process group.
func (r *runnerProcess) Start(context.Context) error {
	stdin, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), lifeline.Close())
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, stdin.Close(), lifeline.Close(), stdout.Close(), stdoutW.Close())
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = stdin, stdoutW, stderrW
	r.lifeline, r.parentEnd = lifeline, []*os.File{stdout, stderr}
	started := make(chan error)
	go r.live(started) // ends with the process
	err = <-started
	err = errors.Join(err, stdin.Close(), stdoutW.Close(), stderrW.Close())
	if err != nil {
		r.kill()
		<-r.done
		return fmt.Errorf("start %s: %w", r.Name(), err)
	}
	return nil
}

// live forks the process, waits for it and reaps it, all on one thread: the parent-death signal of Linux is tied to the thread
// that forked, not to the process.
func (r *runnerProcess) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.fork()
	if err == nil {
		r.pipes.Go(func() { r.stdout(r.parentEnd[0]) })
		r.pipes.Go(func() { r.output.stderr(r.parentEnd[1]) })
	}
	started <- err
	if err == nil {
		err = r.wait()
	}
	r.close(err)
}

func (r *runnerProcess) fork() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return context.Canceled
	}
	inOwnGroup(r.cmd)
	err := r.cmd.Start()
	r.process = r.cmd.Process
	return err
}

// wait waits for the process to end, kills the rest of its group while the pid cannot be reused, and reaps it.
func (r *runnerProcess) wait() error {
	if ps.AwaitExit(r.process.Pid) != nil {
		err := r.cmd.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reaped = true
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	killGroup(r.process.Pid)
	r.reaped = true
	return r.cmd.Wait()
}

// drainPipes bounds the wait for the last output of a process that is gone: a descendant that left the group may keep the pipes open for
// ever.
const drainPipes = 200 * time.Millisecond

func (r *runnerProcess) close(err error) {
	for _, f := range r.parentEnd {
		_ = f.SetReadDeadline(time.Now().Add(drainPipes))
	}
	r.pipes.Wait()
	for _, f := range append(r.parentEnd, r.lifeline) {
		_ = f.Close()
	}
	_ = r.lineW.Close()
	_ = r.quietW.Close()
	r.exit = err
	close(r.done)
}

// stdout reads the handshake line, and then everything else.
func (r *runnerProcess) stdout(f io.Reader) {
	in := bufio.NewReaderSize(f, maxHandshake)
	line, err := in.ReadSlice('\n')
	if err == nil {
		err = r.checkHandshake(strings.TrimSpace(string(line)))
	} else if len(line) > 0 {
		err = notHandshake(string(line))
	} else {
		err = nil // it printed nothing; its exit status says more
	}
	if err != nil {
		r.spoil(err)
		r.kill()
	} else if len(line) > 0 {
		_, _ = r.lineW.Write(line)
	}
	_ = r.lineW.Close()
	r.output.stdout(in)
}

func (r *runnerProcess) spoil(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noise = err
}

// spoiled is the error in the handshake line.
func (r *runnerProcess) spoiled() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.noise
}

// maxHandshake bounds the handshake line: a certificate has about 1 KiB.
const maxHandshake = 8 << 10

// checkHandshake refuses everything that go-plugin would misread: a different line, a socket that is not the plugin's own, and an
// unexpected certificate.
func (r *runnerProcess) checkHandshake(line string) error {
	parts := strings.Split(line, "|")
	if len(parts) < 5 || len(parts) > 7 || parts[0] != "1" {
		return notHandshake(line)
	}
	if parts[4] != "grpc" {
		return fmt.Errorf("the plugin's handshake offers the protocol %.20q, must be grpc", parts[4])
	}
	if err := r.checkAddress(parts[2], parts[3]); err != nil {
		return err
	}
	certificate := len(parts) > 5 && len(parts[5]) > 50
	if r.tls && !certificate {
		return errors.New(`the plugin's handshake has no certificate: it does not speak TLS; set tls = "none" in [run] of plugin.toml`)
	}
	if !r.tls && len(parts) > 5 && parts[5] != "" {
		return errors.New(`the plugin's handshake has a certificate, but plugin.toml says tls = "none"`)
	}
	return nil
}

func notHandshake(line string) error {
	line = kind.Text(line, 80)
	return fmt.Errorf("the plugin printed %q on standard output before its handshake: log to standard error instead", line)
}

// checkAddress accepts a socket in the process's own folder and, on systems without such sockets, the loopback.
func (r *runnerProcess) checkAddress(network, address string) error {
	switch {
	case network == "unix" && filepath.Dir(address) == r.socketDir && filepath.Clean(address) == address:
		return nil
	case network == "tcp" && runtime.GOOS == "windows" && strings.HasPrefix(address, "127.0.0.1:"):
		return nil
	}
	return fmt.Errorf("the plugin's handshake names the address %.10s %.100q, which is not in its socket folder", network, address)
}

// Kill ends the process and its group.
func (r *runnerProcess) Kill(context.Context) error {
	r.kill()
	return nil
}

func (r *runnerProcess) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.process != nil && !r.reaped {
		killGroup(r.process.Pid)
	}
}

// hangUp closes the lifeline, as if the host had died.
func (r *runnerProcess) hangUp() { _ = r.lifeline.Close() }

// Wait waits until the process is gone.
func (r *runnerProcess) Wait(context.Context) error {
	<-r.done
	return r.exit
}

// ended is an error that says how the process ended; nil while it runs.
func (r *runnerProcess) ended() error {
	select {
	case <-r.done:
	default:
		return nil
	}
	if r.exit == nil {
		return errors.New("exit status 0")
	}
	return r.exit
}

// Stdout is the handshake line.
func (r *runnerProcess) Stdout() io.ReadCloser { return r.line }

// Stderr is empty; it ends with the process.
func (r *runnerProcess) Stderr() io.ReadCloser { return r.quiet }

// Name is the path of the program.
func (r *runnerProcess) Name() string { return r.cmd.Args[0] }

// ID is the pid.
func (r *runnerProcess) ID() string { return strconv.Itoa(r.pid()) }

func (r *runnerProcess) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return 0
	}
	return r.process.Pid
}

// Diagnose is not needed: the launcher explains a failed start itself.
func (r *runnerProcess) Diagnose(context.Context) string { return "" }

// PluginToHost keeps the address, which checkHandshake has checked.
func (r *runnerProcess) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin keeps the address.
func (r *runnerProcess) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
