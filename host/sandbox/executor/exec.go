package executor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// ladderAllowance is the time that the supervisor's escalating signals may take before the host removes the container.
const ladderAllowance = 8 * time.Second

// Exec runs a command to its end. A timeout or a cancelled context is a result, not an error.
func (x *Executor) Exec(ctx context.Context, cmd machine.Command) (machine.Result, error) {
	body, err := x.body(cmd)
	if err != nil {
		return machine.Result{}, err
	}
	return x.execute(ctx, body, cmd)
}

// ExecProgram runs a program without a shell; argv is its command line, and the script of cmd is ignored.
func (x *Executor) ExecProgram(ctx context.Context, argv []string, cmd machine.Command) (machine.Result, error) {
	body, err := x.body(cmd)
	if err != nil {
		return machine.Result{}, err
	}
	body.Argv = frame.Words(argv)
	body.Cwd, body.Dir = []byte(path.Join(x.dir, cmd.Dir)), nil
	return x.execute(ctx, body, cmd)
}

// execute runs the command of body and reports output as cmd requires.
func (x *Executor) execute(ctx context.Context, body frame.ExecBody, cmd machine.Command) (machine.Result, error) {
	c := x.link.NewCall()
	if err := c.Begin(body, cmd.Stdin); err != nil {
		return machine.Result{}, err
	}
	defer c.AwaitInput()
	r, err := x.await(ctx, c, body.Timeout, cmd.Progress)
	if body.Argv == nil {
		r.Shell = x.shell
	}
	return r, err
}

// await waits for the result. When ctx ends, the supervisor ends the command with escalating signals; if it does not finish in time or
// leaves survivors, the container is removed.
func (x *Executor) await(ctx context.Context, c *link.Call, timeout time.Duration, progress func(machine.Stream, []byte)) (machine.Result, error) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	overdue := time.AfterFunc(timeout+ladderAllowance, cancel)
	defer overdue.Stop()
	stop := context.AfterFunc(ctx, func() {
		overdue.Reset(ladderAllowance)
		_ = c.Cancel()
	})
	defer stop()
	began := time.Now()
	r, err := c.Wait(hard, progress)
	switch {
	case hard.Err() != nil && errors.Is(err, context.Canceled):
		r.Signal, r.Wall = "SIGKILL", time.Since(began)
		r.TimedOut, r.Canceled = ctx.Err() == nil, ctx.Err() != nil
		why := x.container.WhyHung()
		r, err = x.lastRung(r, began)
		if why != nil && err == nil {
			err = fmt.Errorf("%w: %w, so the command was given up after %v; the next one gets a new container",
				machine.ErrUnavailable, why, r.Kill.Took.Round(time.Second))
		}
		return r, err
	case r.Kill != nil && r.Kill.Survivors > 0:
		return x.lastRung(r, began)
	}
	return r, err
}

// rungContainer names the last resort, which only the host has.
const rungContainer = "container"

// lastRung removes the container, which leaves nothing alive in it.
func (x *Executor) lastRung(r machine.Result, began time.Time) (machine.Result, error) {
	survivors := 0
	if r.Kill != nil {
		survivors = r.Kill.Survivors
	}
	err := x.container.Remove(errors.New("a command in it could not be ended in any other way"))
	if err == nil {
		survivors = 0
	}
	r.Kill = &machine.Kill{Rung: rungContainer, Took: time.Since(began), Survivors: survivors}
	return r, err
}

// body checks a command and converts it to its wire form.
func (x *Executor) body(cmd machine.Command) (frame.ExecBody, error) {
	body := frame.ExecBody{
		Script:    []byte(cmd.Script),
		Stdin:     len(cmd.Stdin) > 0,
		Timeout:   cmd.Timeout,
		MaxOutput: int64(cmd.MaxOutput),
		Eager:     cmd.Progress != nil,
		Changes:   cmd.Changes,
		Spill:     cmd.Spill,
	}
	switch {
	case len(cmd.Script) > frame.MaxScript:
		return body, fmt.Errorf("command of %d bytes is longer than %d; write it to a file and run that", len(cmd.Script), frame.MaxScript)
	case strings.ContainsRune(cmd.Script, 0):
		return body, errors.New("command contains a zero byte")
	}
	if body.MaxOutput <= 0 {
		body.MaxOutput = machine.DefaultMaxOutput
	}
	if cmd.Dir != "" {
		dir, err := Inside(cmd.Dir, x.dir)
		if err != nil {
			return body, err
		}
		body.Dir = []byte(dir)
	}
	for name, value := range cmd.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return body, fmt.Errorf("environment variable %q is malformed", name)
		}
		body.Env = append(body.Env, []byte(name+"="+value))
	}
	return body, nil
}

// Inside returns name relative to the workspace, or machine.ErrOutside. The supervisor handles links.
func Inside(name, workspaceDir string) (string, error) {
	if strings.ContainsRune(name, 0) || len(name) > frame.MaxPath {
		return "", fmt.Errorf("%w: path is malformed", machine.ErrOutside)
	}
	clean := path.Clean(name)
	if path.IsAbs(clean) {
		rest, ok := strings.CutPrefix(clean+"/", workspaceDir+"/")
		if !ok {
			return "", fmt.Errorf("%w: %q is not below %s", machine.ErrOutside, name, workspaceDir)
		}
		clean = path.Clean("./" + rest)
	}
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%w: %q", machine.ErrOutside, name)
	}
	return clean, nil
}
