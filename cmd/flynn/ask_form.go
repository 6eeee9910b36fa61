package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"charm.land/huh/v2"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
)

// formAsker asks in forms on a terminal, one question each. Questions and answers stay in the terminal's own scrollback.
type formAsker struct {
	in, out *os.File
	colour  bool
}

var _ setup.Asker = (*formAsker)(nil)

func (f *formAsker) Asks() bool      { return true }
func (f *formAsker) Say(text string) { fmt.Fprintln(f.out, text) }

// run shows one question. Ctrl-C ends it, and with it the command.
func (f *formAsker) run(ctx context.Context, field huh.Field) error {
	theme := huh.ThemeFunc(huh.ThemeBase16)
	if !f.colour {
		theme = huh.ThemeBase
	}
	form := huh.NewForm(huh.NewGroup(field)).WithInput(f.in).WithOutput(f.out).WithTheme(theme).WithShowHelp(true)
	err := form.RunWithContext(ctx)
	switch {
	case errors.Is(err, huh.ErrUserAborted):
		return setup.ErrAborted
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// answered leaves a question and its answer on the screen.
func (f *formAsker) answered(title, answer string) {
	fmt.Fprintf(f.out, "%s %s\n", title, cell(answer))
}

// maxRows bounds the options that are shown at a time.
const maxRows = 12

// Choose implements setup.Asker.
func (f *formAsker) Choose(ctx context.Context, title string, options []setup.Option) (string, error) {
	var value int
	shown := make([]huh.Option[int], len(options))
	for i, o := range options {
		shown[i] = huh.NewOption(cell(o.Title), i)
	}
	field := huh.NewSelect[int]().Title(title).Options(shown...).Value(&value).Height(min(len(options), maxRows) + 2)
	if err := f.run(ctx, field); err != nil {
		return "", err
	}
	f.answered(title, options[value].Title)
	return options[value].Value, nil
}

// Text implements setup.Asker.
func (f *formAsker) Text(ctx context.Context, title, help, initial string, valid func(string) error) (string, error) {
	value := initial
	field := huh.NewInput().Title(title).Description(help).Value(&value)
	if valid != nil {
		field.Validate(valid)
	}
	if err := f.run(ctx, field); err != nil {
		return "", err
	}
	if value == "" {
		value = initial
	}
	f.answered(title+":", value)
	return value, nil
}

// Secret implements setup.Asker.
func (f *formAsker) Secret(ctx context.Context, title, help string) (config.Secret, error) {
	var text string
	field := huh.NewInput().Title(title).Description(help).Value(&text).EchoMode(huh.EchoModePassword).Validate(func(text string) error {
		_, err := optionalSecret(text)
		return err
	})
	if err := f.run(ctx, field); err != nil {
		return "", err
	}
	f.answered(title+":", "(not shown)")
	return optionalSecret(text)
}

// Confirm implements setup.Asker.
func (f *formAsker) Confirm(ctx context.Context, title string, initial bool) (bool, error) {
	value := initial
	if err := f.run(ctx, huh.NewConfirm().Title(title).Value(&value)); err != nil {
		return false, err
	}
	f.answered(title, map[bool]string{true: "yes", false: "no"}[value])
	return value, nil
}
