package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spec is one command, ready to start.
type spec struct {
	script string
	dir    string
	env    []string
	stdin  []byte
	marker string
	// removeHome removes the command's home folder.
	removeHome func() error
}

// running is a command that was started. Its leader is not reaped before everything else of it is gone: as long as the
// leader is there, as a zombie at least, its pid names its process group and session and nobody else's.
type running struct {
	cmd     *exec.Cmd
	marker  string
	started time.Time
	exited  chan struct{} // closed when the leader has exited
	stdin   *os.File
	outputs []*os.File
	io      sync.WaitGroup // the goroutines at the pipes
}

// drainTime bounds how long output is read after the last process that we know of is gone.
const drainTime = 500 * time.Millisecond

// start runs a command in a session of its own, so that it has a process group to signal and no terminal to write to.
// Without a sink for stderr both streams share one pipe, which keeps their order.
func start(s spec, stdout, stderr sink) (*running, error) {
	cmd := exec.Command("/bin/sh", "-c", s.script)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r := &running{cmd: cmd, marker: s.marker, exited: make(chan struct{})}
	inner, err := r.plumb(s.stdin, stderr == nil)
	if err != nil {
		return nil, fmt.Errorf("run command: %w", err)
	}
	r.started = time.Now()
	err = cmd.Start()
	for _, f := range inner {
		f.Close()
	}
	if err != nil {
		r.unplumb()
		return nil, fmt.Errorf("run command: %w", err)
	}
	go r.watch() // ends with the leader
	r.io.Go(func() { r.feed(s.stdin) })
	r.io.Go(func() { drain(r.outputs[0], stdout) })
	if stderr != nil {
		r.io.Go(func() { drain(r.outputs[1], stderr) })
	}
	return r, nil
}

// plumb opens the pipes and returns the ends that belong to the command.
func (r *running) plumb(stdin []byte, joined bool) (inner []*os.File, err error) {
	defer func() {
		if err != nil {
			r.unplumb()
			for _, f := range inner {
				f.Close()
			}
		}
	}()
	stdout, err := r.output()
	if err != nil {
		return inner, err
	}
	inner = append(inner, stdout)
	r.cmd.Stdout, r.cmd.Stderr = stdout, stdout
	if !joined {
		stderr, err := r.output()
		if err != nil {
			return inner, err
		}
		inner = append(inner, stderr)
		r.cmd.Stderr = stderr
	}
	if stdin == nil {
		return inner, nil // os/exec gives it /dev/null
	}
	read, write, err := os.Pipe()
	if err != nil {
		return inner, err
	}
	r.cmd.Stdin, r.stdin = read, write
	return append(inner, read), nil
}

// output opens a pipe, keeps its end to read from and returns the other one.
func (r *running) output() (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.outputs = append(r.outputs, read)
	return write, nil
}

func (r *running) unplumb() {
	for _, f := range r.outputs {
		f.Close()
	}
	if r.stdin != nil {
		r.stdin.Close()
	}
}

// feed writes the input. A command that does not read it all is no error.
func (r *running) feed(stdin []byte) {
	if r.stdin == nil {
		return
	}
	_, _ = r.stdin.Write(stdin)
	r.stdin.Close()
}

func drain(f *os.File, to sink) {
	defer f.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := f.Read(buffer)
		if n > 0 {
			to.take(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// wait returns the command's result once it and everything that it started is gone. The context or the
// timeout, if it is not zero, ends it.
func (r *running) wait(ctx context.Context, timeout, grace time.Duration) Result {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var result Result
	select {
	case <-r.exited:
		result.Kill = r.clear()
	case <-ctx.Done():
		result.TimedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
		result.Canceled = !result.TimedOut
		result.Kill = r.kill(grace)
	case <-expired:
		result.TimedOut = true
		result.Kill = r.kill(grace)
	}
	r.finish(&result)
	return result
}

// finish collects the output that is still on its way, and reaps the leader.
func (r *running) finish(result *Result) {
	deadline := time.Now().Add(drainTime)
	for _, f := range r.outputs {
		// A process that got away may hold the pipe open for ever. The error is of a pipe that is closed already.
		_ = f.SetReadDeadline(deadline)
	}
	if r.stdin != nil {
		_ = r.stdin.SetWriteDeadline(time.Now())
	}
	r.io.Wait()
	result.Wall = time.Since(r.started)
	result.ExitCode = -1
	if result.Kill != nil && result.Kill.Survivors > 0 {
		return // waiting for what SIGKILL does not end could take for ever
	}
	<-r.exited
	_ = r.cmd.Wait() // its state says how the command ended
	state := r.cmd.ProcessState
	result.CPU = state.UserTime() + state.SystemTime()
	result.ExitCode = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		result.Signal = unix.SignalName(status.Signal())
	}
}
