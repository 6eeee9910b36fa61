package main

import (
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

// wantsTerminal says whether a command in a sandbox gets a terminal: if asked for, else if both ends here are one.
func wantsTerminal(cmd *cli.Command, out *output) bool {
	if cmd.IsSet("terminal") {
		return cmd.Bool("terminal")
	}
	return !out.asJSON && cmd.Root().Reader == os.Stdin && cmd.Root().Writer == os.Stdout &&
		term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// defaultSize is a terminal's that nobody looks at.
func defaultSize() executor.Size { return executor.Size{Rows: 24, Cols: 80} }

// converse runs a command on a terminal of its own, which this one shows.
func converse(ctx context.Context, cmd *cli.Command, out *output, box *sandbox.Session, command machine.Command) (r machine.Result, err error) {
	stdin, _ := cmd.Root().Reader.(*os.File)
	size, restore, err := takeTerminal(stdin)
	if err != nil {
		return r, err
	}
	defer restore()
	command.Env = map[string]string{"TERM": termName()}
	command.Progress = nil
	live, err := box.Spawn(ctx, command, size)
	if err != nil {
		return r, err
	}
	defer live.Close()
	defer followSize(stdin, live)()
	go func() { // ends with the program: a read from a terminal cannot be called back
		_, _ = io.Copy(live.Stdin, cmd.Root().Reader)
		live.Stdin.Close()
	}()
	if _, err := io.Copy(out.out, live.Stdout); err != nil {
		return r, err
	}
	return live.Wait(context.WithoutCancel(ctx))
}

// takeTerminal switches this terminal to passing on every key, and says how large it is. What is no terminal is left alone.
func takeTerminal(stdin *os.File) (size executor.Size, restore func(), err error) {
	if stdin == nil || !term.IsTerminal(int(stdin.Fd())) {
		return defaultSize(), func() {}, nil
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
		return defaultSize()
	}
	return executor.Size{Rows: uint16(rows), Cols: uint16(cols)}
}

// followSize passes on changes of this terminal's size until the function returned is called.
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
				_ = live.Resize(sizeOf(stdin)) // if it fails the stream has ended, too
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

// termName is the kind of terminal that programs inside are to expect.
func termName() string {
	if name := os.Getenv("TERM"); name != "" {
		return name
	}
	return "dumb"
}
