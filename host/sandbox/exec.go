package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// ladderAllowance is what the supervisor's own rungs may take before the host removes the container.
const ladderAllowance = 8 * time.Second

// exec runs a command to its end.
func (b *box) exec(ctx context.Context, cmd machine.Command, workspaceDir string) (machine.Result, error) {
	body, err := execBody(cmd, workspaceDir)
	if err != nil {
		return machine.Result{}, err
	}
	c := newCall(body.MaxOutput)
	finish, err := b.openExec(context.WithoutCancel(ctx), c, body, cmd.Stdin)
	if err != nil {
		return machine.Result{}, err
	}
	defer finish()
	var streams [2][]byte
	sink := func(stream uint8, p []byte) {
		streams[stream-frame.Out] = append(streams[stream-frame.Out], p...)
		if cmd.Progress != nil {
			cmd.Progress(machine.Stream(stream), p)
		}
	}
	r, err := b.judge(ctx, c, body.Timeout, sink)
	r.Stdout, r.Stderr = streams[0], streams[1]
	if exit := c.exit(); exit != nil && cmd.Spill {
		r.Stdout = mark(r.Stdout, exit.Dropped-exit.DroppedErr, body.MaxOutput, r.Spill)
		r.Stderr = mark(r.Stderr, exit.DroppedErr, body.MaxOutput, r.Spill)
	}
	return r, err
}

var (
	errTooLong   = errors.New("command with its environment is too long for the sandbox")
	errNoVerdict = fmt.Errorf("%w: a command answered without a verdict", frame.ErrProtocol)
)

// openExec sends the command and its stdin; what fits in the first window goes with it. The function
// returned waits for the rest to be given up.
func (b *box) openExec(ctx context.Context, c *call, body frame.ExecBody, stdin []byte) (finish func(), err error) {
	first := frame.Frame{Type: frame.Exec, Payload: frame.Encode(body)}
	if len(first.Payload) > frame.MaxPayload {
		return nil, errTooLong
	}
	if len(stdin) == 0 {
		return func() {}, b.link.begin(c, first)
	}
	if err := b.link.begin(c, first); err != nil {
		return nil, err
	}
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		_ = b.link.push(ctx, c, stdin) // ends with the call, whose answer shows any failure
	}()
	return func() { <-pushed }, nil
}

// judge waits for the verdict. When ctx ends, the supervisor climbs its ladder; when it does not
// come back in time or leaves survivors, the container goes.
func (b *box) judge(ctx context.Context, c *call, timeout time.Duration, sink func(uint8, []byte)) (machine.Result, error) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	overdue := time.AfterFunc(timeout+ladderAllowance, cancel)
	defer overdue.Stop()
	stop := context.AfterFunc(ctx, func() {
		overdue.Reset(ladderAllowance)
		_ = b.link.send(frame.Frame{Type: frame.Stop, ID: c.id, Payload: frame.Encode(frame.StopBody{Cancel: true})})
	})
	defer stop()
	began := time.Now()
	a, err := b.link.await(hard, c, sink)
	switch {
	case hard.Err() != nil && errors.Is(err, context.Canceled):
		return b.lastRung(machine.Result{
			ExitCode: -1, Signal: "SIGKILL", Wall: time.Since(began),
			TimedOut: ctx.Err() == nil, Canceled: ctx.Err() != nil,
		}, began)
	case err != nil:
		var pids pidsError
		return machine.Result{ExitCode: -1, PidsHit: errors.As(err, &pids)}, err
	case a.exit == nil:
		b.link.fail(errNoVerdict)
		return machine.Result{}, machine.ErrUnavailable
	}
	r := verdict(*a.exit)
	if r.Kill != nil && r.Kill.Survivors > 0 {
		return b.lastRung(r, began)
	}
	return r, nil
}

// lastRung removes the container, which leaves nothing alive in it.
func (b *box) lastRung(r machine.Result, began time.Time) (machine.Result, error) {
	survivors := 0
	if r.Kill != nil {
		survivors = r.Kill.Survivors
	}
	err := b.remove(errors.New("a command could not be ended otherwise"))
	if err == nil {
		survivors = 0
	}
	r.Kill = &machine.Kill{Rung: rungContainer, Took: time.Since(began), Survivors: survivors}
	return r, err
}

// execBody checks a command and puts it into the wire's words.
func execBody(cmd machine.Command, workspaceDir string) (frame.ExecBody, error) {
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
		dir, err := inside(cmd.Dir, workspaceDir)
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

// inside returns name relative to the workspace, or machine.ErrOutside. Links are the supervisor's
// business.
func inside(name, workspaceDir string) (string, error) {
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
