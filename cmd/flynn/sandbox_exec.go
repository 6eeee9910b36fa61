package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func execSandboxCommand(name cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a command in a configured sandbox", ArgsUsage: "COMMAND...",
		Description: "Runs the command line with /bin/sh in a container of its own and prints all of its output, then the result on stderr.\n" +
			"With --session it works in that session's workspace, otherwise in an empty one that is removed afterwards.\n" +
			"On a terminal the command gets one as well: flynn sandbox exec sh\n" +
			"It reads standard input only with --stdin: tar c . | flynn sandbox exec -i tar x\n" +
			"The exit code is the command's; 128 plus the number of the signal that killed it; 124 if it timed out; 125 if it could not run.\n" +
			"--json prints the result with the first 256 KiB of each stream.",
		Flags: []cli.Flag{
			name, &cli.StringFlag{Name: "session", Usage: "work in the workspace of session `ID`"},
			&cli.DurationFlag{
				Name: "timeout", Usage: "time limit (default: timeout_seconds; none on a terminal)", HideDefault: true,
				Validator: positive,
			},
			&cli.BoolFlag{Name: "stdin", Aliases: []string{"i"}, Usage: "pass standard input on (default: with a terminal)"},
			&cli.BoolFlag{Name: "terminal", Aliases: []string{"t"}, Usage: "allocate a terminal (default: if this is one); --terminal=false for none"},
		},
		UseShortOptionHandling: true, // -it, as everywhere
		Action:                 execInSandbox,
	}
}

// positive checks the time of a flag.
func positive(d time.Duration) error {
	if d <= 0 {
		return errors.New("must be a positive duration, such as 30s")
	}
	return nil
}

func execInSandbox(ctx context.Context, cmd *cli.Command) error {
	err := execScript(ctx, cmd)
	if err == nil || errors.As(err, new(exited)) || errors.As(err, new(usageError)) {
		return err
	}
	return exited{err, exitNotRun}
}

func execScript(ctx context.Context, cmd *cli.Command) error {
	return withSandboxes(ctx, cmd, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		command := machine.Command{Script: strings.Join(cmd.Args().Slice(), " "), Timeout: cmd.Duration("timeout")}
		ctx, stop := out.noticed(ctx)
		defer stop()
		heads := [2]head{}
		r, err := runOnce(ctx, s, cmd, func(box *sandbox.Session, spec spec.Spec) (machine.Result, error) {
			if wantsTerminal(cmd, out) {
				return converse(ctx, cmd, out, box, command)
			}
			if command.Timeout == 0 {
				command.Timeout = spec.WithDefaults().Timeout
			}
			p := pipes{out: out.out, err: out.err}
			if cmd.Bool("stdin") {
				p.in = cmd.Root().Reader
			}
			if out.asJSON {
				p.out, p.err = &heads[0], &heads[1]
			}
			return p.run(ctx, box, command)
		})
		if err != nil {
			return err
		}
		if out.asJSON {
			r.Dropped += heads[0].dropped + heads[1].dropped
			err = out.json(ran{r, string(heads[0].text), string(heads[1].text)})
		} else {
			fmt.Fprintln(out.err, "flynn:", resultLine(r))
		}
		if code := execCode(r); err == nil && code != exitOK {
			err = exited{reported{errors.New("the command failed")}, code}
		}
		return err
	})
}

// execCode returns the exit code of a command, as a shell reports it.
func execCode(r machine.Result) int {
	switch {
	case r.TimedOut:
		return exitTimedOut
	case r.Signal != "":
		return exitSignal + int(unix.SignalNum(r.Signal))
	case r.ExitCode < 0 || r.ExitCode == exitOK && r.Canceled:
		return exitNotRun
	}
	return r.ExitCode
}

// ran is the JSON of a result with its output as text.
type ran struct {
	machine.Result
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// head keeps the beginning of what is written to it.
type head struct {
	text    []byte
	dropped int64
}

func (h *head) Write(p []byte) (int, error) {
	kept := min(len(p), machine.DefaultMaxOutput-len(h.text))
	h.text = append(h.text, p[:kept]...)
	h.dropped += int64(len(p) - kept)
	return len(p), nil
}

// pipes are the streams of a command without a terminal. They are copied without loss, however slow the other ends are.
type pipes struct {
	in       io.Reader // nil: nothing
	out, err io.Writer
}

func (p pipes) run(ctx context.Context, box *sandbox.Session, command machine.Command) (r machine.Result, err error) {
	live, err := box.Spawn(ctx, command)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, live.Close()) }()
	fed := make(chan error, 1)
	go func() { // ends with the process at the latest: a read cannot be cancelled
		fed <- feed(live.Stdin, p.in)
		_ = live.Stdin.Close() // after the result is sent: the command may end at once
	}()
	shown := make(chan error, 2)
	for _, stream := range []struct {
		to   io.Writer
		from io.Reader
	}{{p.out, live.Stdout}, {p.err, live.Stderr}} {
		go func() {
			_, err := io.Copy(stream.to, stream.from)
			shown <- err
		}()
	}
	for range 2 {
		if err := <-shown; err != nil {
			return r, err // closing ends the command and the other stream
		}
	}
	if r, err = live.Wait(context.WithoutCancel(ctx)); err != nil {
		return r, err
	}
	select {
	case err = <-fed:
	default: // it ended without reading all of its input
	}
	return r, err
}

// feed copies all input. It is no error if the command does not read it.
func feed(to io.Writer, from io.Reader) error {
	if from == nil {
		return nil
	}
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, machine.ErrUnavailable) {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}

// endTimeout bounds the removal of containers after a command.
const endTimeout = time.Minute

// runOnce runs a command in a container that is removed afterwards.
func runOnce(
	ctx context.Context, s *sandboxes.Admin, cmd *cli.Command, run func(*sandbox.Session, spec.Spec) (machine.Result, error),
) (r machine.Result, err error) {
	session := message.WorkspaceKey(cmd.String("session"))
	ephemeral := session == ""
	if ephemeral {
		session = message.WorkspaceKey("exec-" + rand.Text()[:12])
	} else if _, err := os.Stat(workspace.Path(s.Root, session)); err != nil {
		return r, fmt.Errorf("session %q has no workspace: see flynn session list", session)
	}
	err = inContainer(ctx, s, cmd, session, ephemeral, func(box *sandbox.Session, spec spec.Spec) error {
		r, err = run(box, spec)
		return err
	})
	return r, err
}

// resultLine says in one line how a command ended.
func resultLine(r machine.Result) string {
	words := []string{fmt.Sprintf("exit code %d", r.ExitCode)}
	if r.Signal != "" {
		words[0] = "ended by " + r.Signal
	}
	for _, c := range []struct {
		is   bool
		text string
	}{
		{r.TimedOut, "timed out"}, {r.Canceled, "cancelled"}, {r.OOM, "out of memory"}, {r.PidsHit, "pids limit reached"},
		{r.DiskHit, "disk limit reached"},
	} {
		if c.is {
			words = append(words, c.text)
		}
	}
	if r.Kill != nil {
		words = append(words, fmt.Sprintf("killed by rung %s in %v, %d survivors", r.Kill.Rung, r.Kill.Took.Round(time.Millisecond), r.Kill.Survivors))
	}
	return strings.Join(append(words, fmt.Sprintf("%v wall, %v CPU", r.Wall.Round(time.Millisecond), r.CPU.Round(time.Millisecond))), ", ")
}
