package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

// askerFor returns the asker that fits the streams of the program: forms on a terminal that can show them, plain questions on one that
// cannot or where ACCESSIBLE is set, and nobody in a pipe, unless plain asks for lines of the input.
func askerFor(ctx context.Context, cmd *cli.Command, plain bool) setup.Asker {
	root, getenv := cmd.Root(), getenvOf(ctx)
	out := &inTurn{w: root.ErrWriter}
	switch terminal := isTerminal(root.Reader) && isTerminal(root.ErrWriter); {
	case cmd.Bool("json"), !terminal && !plain:
		return nobody{out: out, quiet: cmd.Bool("quiet")}
	case plain, getenv("TERM") == "dumb", getenv("TERM") == "", getenv("ACCESSIBLE") != "":
		return &plainAsker{in: newLines(root.Reader), out: out}
	}
	return &formAsker{in: root.Reader.(*os.File), out: root.ErrWriter.(*os.File), colour: colourful(root.ErrWriter, getenv)}
}

// nobody answers nothing.
type nobody struct {
	out   io.Writer
	quiet bool
}

var _ setup.Asker = nobody{}

func (nobody) Choose(context.Context, string, []setup.Option) (string, error) {
	return "", setup.ErrNobody
}

func (nobody) Text(context.Context, string, string, string, func(string) error) (string, error) {
	return "", setup.ErrNobody
}

func (nobody) Secret(context.Context, string, string) (config.Secret, error) {
	return "", setup.ErrNobody
}
func (nobody) Confirm(context.Context, string, bool) (bool, error) { return false, setup.ErrNobody }
func (nobody) Asks() bool                                          { return false }

func (n nobody) Say(text string) {
	if !n.quiet {
		fmt.Fprintln(n.out, text)
	}
}

// plainAsker asks in lines, without any control of the terminal.
type plainAsker struct {
	in  *lines
	out io.Writer
}

var _ setup.Asker = (*plainAsker)(nil)

// maxTries is how often a question is repeated after an answer that will not do: a pipe must not be read to its end.
const maxTries = 5

func (p *plainAsker) Asks() bool      { return true }
func (p *plainAsker) Say(text string) { fmt.Fprintln(p.out, text) }

// ask repeats a question until the answer will do.
func (p *plainAsker) ask(ctx context.Context, prompt string, secret bool, take func(string) error) error {
	for range maxTries {
		text, err := p.in.next(ctx, secret, func() { fmt.Fprint(p.out, prompt) })
		if secret {
			fmt.Fprintln(p.out)
		}
		if err != nil {
			return err
		}
		if err = take(strings.TrimSpace(text)); err == nil {
			return nil
		}
		fmt.Fprintf(p.out, "  %v\n", err)
	}
	return fmt.Errorf("no usable answer to %q", strings.TrimSpace(prompt))
}

// Choose implements setup.Asker.
func (p *plainAsker) Choose(ctx context.Context, title string, options []setup.Option) (value string, err error) {
	fmt.Fprintln(p.out, title)
	for i, o := range options {
		fmt.Fprintf(p.out, "  %d. %s\n", i+1, o.Title)
	}
	err = p.ask(ctx, "Number [1]: ", false, func(text string) error {
		if text == "" {
			text = "1"
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(options) {
			return fmt.Errorf("answer with a number from 1 to %d", len(options))
		}
		value = options[n-1].Value
		return nil
	})
	return value, err
}

// Text implements setup.Asker.
func (p *plainAsker) Text(ctx context.Context, title, help, initial string, valid func(string) error) (value string, err error) {
	prompt := title
	if help != "" {
		prompt += " (" + help + ")"
	}
	if initial != "" {
		prompt += " [" + initial + "]"
	}
	err = p.ask(ctx, prompt+": ", false, func(text string) error {
		if text == "" {
			text = initial
		}
		value = text
		if valid == nil {
			return nil
		}
		return valid(text)
	})
	return value, err
}

// Secret implements setup.Asker.
func (p *plainAsker) Secret(ctx context.Context, title, help string) (value config.Secret, err error) {
	err = p.ask(ctx, title+" ("+help+"; it is not shown): ", true, func(text string) (err error) {
		value, err = optionalSecret(text)
		return err
	})
	return value, err
}

// optionalSecret takes an empty answer for none.
func optionalSecret(text string) (config.Secret, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	return setup.CleanSecret(text)
}

// Confirm implements setup.Asker.
func (p *plainAsker) Confirm(ctx context.Context, title string, initial bool) (value bool, err error) {
	choice := " [y/N]: "
	if initial {
		choice = " [Y/n]: "
	}
	err = p.ask(ctx, title+choice, false, func(text string) error {
		switch strings.ToLower(text) {
		case "":
			value = initial
		case "y", "yes":
			value = true
		case "n", "no":
			value = false
		default:
			return errors.New("answer with y or n")
		}
		return nil
	})
	return value, err
}

// lines reads lines of a stream for one reader at a time. A read that nobody waits for any more keeps its line for the next; it ends with the
// stream or with the process.
type lines struct {
	file    *os.File // nil: no terminal
	read    *bufio.Reader
	reading errgroup.Group // one read at most
	lines   chan line
}

type line struct {
	text string
	err  error
}

func newLines(in io.Reader) *lines {
	l := &lines{read: bufio.NewReader(in), lines: make(chan line, 1)}
	l.reading.SetLimit(1)
	if isTerminal(in) {
		l.file = in.(*os.File)
	}
	return l
}

// next returns the next line. secret keeps a terminal from showing it, from before prompt is called.
func (l *lines) next(ctx context.Context, secret bool, prompt func()) (string, error) {
	if secret && l.file != nil {
		before, err := term.GetState(int(l.file.Fd()))
		if err != nil {
			return "", err
		}
		// The echo returns even if the program is interrupted in the middle.
		defer func() { _ = term.Restore(int(l.file.Fd()), before) }()
		if err := hideInput(l.file); err != nil {
			return "", err
		}
	}
	prompt()
	l.reading.TryGo(func() error { // unless one is under way
		text, err := l.read.ReadString('\n')
		if text != "" {
			err = nil
		}
		l.lines <- line{text, err}
		return nil
	})
	select {
	case got := <-l.lines:
		_ = l.reading.Wait()
		if errors.Is(got.err, io.EOF) {
			return "", errors.New("the input ended before everything was answered")
		}
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
