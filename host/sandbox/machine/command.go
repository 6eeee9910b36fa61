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

// running is a started command. Its leader is reaped last: while the leader exists, at least as a zombie, its pid identifies its process
// group and session and no others.
type running struct {
	cmd     *exec.Cmd
	marker  string
	started time.Time
	exited  chan struct{} // closed when the leader has exited
	stdin   *os.File
	outputs []*os.File
	io      sync.WaitGroup // the goroutines that copy to and from the pipes
	found   found
}

// drainTime bounds reading output after the last known process is gone.
const drainTime = 500 * time.Millisecond

// start starts a command in its own session, so that it has a process group to signal and no terminal to write to. Without a sink for
// stderr both streams share one pipe, which keeps their order.
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

// plumb opens the pipes and returns the command's ends.
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

// output opens a pipe, keeps the end to read from and returns the other.
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

// feed writes the input. It is not an error if the command does not read it all.
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

// wait returns the command's result once it and everything that it started is gone. The context or a positive timeout ends it.
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

// finish reads the remaining output and reaps the leader.
func (r *running) finish(result *Result) {
	deadline := time.Now().Add(drainTime)
	for _, f := range r.outputs {
		// A process that escaped may hold the pipe open for ever. An error means that the pipe is closed already.
		_ = f.SetReadDeadline(deadline)
	}
	if r.stdin != nil {
		_ = r.stdin.SetWriteDeadline(time.Now())
	}
	r.io.Wait()
	result.Wall = time.Since(r.started)
	result.ExitCode = -1
	if result.Kill != nil && result.Kill.Survivors > 0 {
		return // waiting for a process that survives SIGKILL could take for ever
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
