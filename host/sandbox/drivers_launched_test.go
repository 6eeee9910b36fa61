package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"
)

// endless prints a line and goes on, with a child.
const endless = "sleep 1000 & echo; exec sleep 1000"

// zeroes writes a session's part of 1 GiB.
func zeroes(n int) string { return fmt.Sprintf("dd if=/dev/zero bs=1M count=%d 2>/dev/null", 1<<10/n) }

func complete(bytes int64, n int) error {
	if bytes != 1<<30/int64(n) {
		return fmt.Errorf("%d bytes came", bytes)
	}
	return nil
}

// runner runs a script until it ends, or until ctx ends.
type runner func(ctx context.Context, script string, stdin io.Reader, stdout io.Writer) error

func (run runner) hello(ctx context.Context) error {
	var out bytes.Buffer
	err := run(ctx, hello, nil, &out)
	return greeted(out.Bytes(), err)
}

// tally counts bytes, and calls begun with the first of them.
type tally struct {
	n     int64
	begun func()
}

func (c *tally) Write(p []byte) (int, error) {
	if c.n == 0 && c.begun != nil {
		c.begun()
	}
	c.n += int64(len(p))
	return len(p), nil
}

// launched is the column of what starts single commands. abortable is whether nothing of a command is left when run returns.
func launched(run runner, abortable bool, firstOf func(ctx context.Context) error) column {
	each := func(do func(ctx context.Context, n int) error) func(context.Context, int) (time.Duration, error) {
		return func(ctx context.Context, n int) (time.Duration, error) {
			return timed(n, func(int) error { return do(ctx, n) })
		}
	}
	return column{figures: map[string]func(context.Context, int) (time.Duration, error){
		figureWarm:  each(func(ctx context.Context, _ int) error { return run.hello(ctx) }),
		figureFirst: each(func(ctx context.Context, _ int) error { return firstOf(ctx) }),
		figureWrite: each(func(ctx context.Context, _ int) error {
			return run(ctx, "cat >f", bytes.NewReader(make([]byte, 1<<20)), io.Discard)
		}),
		figureOutput: each(func(ctx context.Context, n int) error {
			var c tally
			err := run(ctx, zeroes(n), nil, &c)
			return errors.Join(err, complete(c.n, n))
		}),
		figureAbort: each(func(ctx context.Context, _ int) error {
			if !abortable {
				return errNever
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			_ = run(ctx, endless, nil, &tally{begun: cancel})
			return nil
		}),
	}}
}

// programs runs each script by a program in a folder. It returns when all have ended that hold the output.
func programs(dir string, argv ...string) runner {
	return func(ctx context.Context, script string, stdin io.Reader, stdout io.Writer) error {
		cmd := exec.CommandContext(ctx, argv[0], append(slices.Clone(argv[1:]), script)...)
		cmd.Dir, cmd.Stdin, cmd.Stdout = dir, stdin, stdout
		return cmd.Run()
	}
}
