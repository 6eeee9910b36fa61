package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// wantsTerminal reports whether a command in a sandbox gets a terminal: if --terminal is set, else if stdin and stdout are terminals.
func wantsTerminal(cmd *cli.Command, out *output) bool {
	if cmd.IsSet("terminal") {
		return cmd.Bool("terminal")
	}
	return !out.asJSON && cmd.Root().Reader == os.Stdin && cmd.Root().Writer == os.Stdout &&
		isTerminal(os.Stdin) && isTerminal(os.Stdout)
}

// defaultSize is the size of a terminal that is not shown on one.
var defaultSize = executor.Size{Rows: 24, Cols: 80}

// converse runs a command on a new terminal, and connects this one to it.
func converse(ctx context.Context, cmd *cli.Command, out *output, box *sandbox.Session, command machine.Command) (r machine.Result, err error) {
	stdin, _ := cmd.Root().Reader.(*os.File)
	size, restore, err := takeTerminal(stdin)
	if err != nil {
		return r, err
	}
	defer restore()
	command.Env = map[string]string{"TERM": cmp.Or(os.Getenv("TERM"), "dumb")}
	command.Progress = nil
	live, err := box.Spawn(ctx, command, size)
	if err != nil {
		return r, err
	}
	defer live.Close()
	defer followSize(stdin, live)()
	go func() { // ends with the process: a read from a terminal cannot be cancelled
		_, _ = io.Copy(live.Stdin, cmd.Root().Reader)
		live.Stdin.Close()
	}()
	if _, err := io.Copy(out.out, live.Stdout); err != nil {
		return r, err
	}
	return live.Wait(context.WithoutCancel(ctx))
}

// takeTerminal switches stdin to raw mode if it is a terminal, and returns its size.
func takeTerminal(stdin *os.File) (size executor.Size, restore func(), err error) {
	if stdin == nil || !term.IsTerminal(int(stdin.Fd())) {
		return defaultSize, func() {}, nil
	}
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return size, nil, fmt.Errorf("switch the terminal to raw mode: %w", err)
	}
	return sizeOf(stdin), func() { _ = term.Restore(int(stdin.Fd()), before) }, nil
}

func sizeOf(stdin *os.File) executor.Size {
	cols, rows, err := term.GetSize(int(stdin.Fd()))
	if err != nil || cols <= 0 || rows <= 0 || cols > 1<<15 || rows > 1<<15 {
		return defaultSize
	}
	return executor.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// followSize passes changes of this terminal's size on until stop is called.
func followSize(stdin *os.File, live *executor.Live) (stop func()) {
	if stdin == nil || !term.IsTerminal(int(stdin.Fd())) {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-changed:
				_ = live.Resize(sizeOf(stdin)) // fails only if the stream has ended
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(done)
		<-ended
	}
}
