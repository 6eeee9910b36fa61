package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/doctor"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/policy/configured"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Category: groupOperate, Usage: "find what is wrong or weak, and say how to mend it",
		Description: "Looks at the configuration, the store, models, channels, the sandbox, plugins, policies, people's rights, files and the clock,\n" +
			"and asks the running flynn, if one runs. The model of each tier answers one word, which costs a few tokens. While no flynn\n" +
			"runs, the plugins of channels are started to see whether their platforms accept the accounts. It takes up to 20 seconds.\n" +
			"docs/help/doctor has a page for each finding. The exit code is 0 if nothing was found, and 5 if something was.",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "fix", Usage: "mend what is safe to mend: take the rights of others from files"}},
		Action: examine,
	}
}

// errUnsound is the error of a doctor who has found something.
var errUnsound = errors.New("something is wrong or weak")

// examination is the JSON of flynn doctor.
type examination struct {
	File    string `json:"file"`
	Running bool   `json:"running"`
	doctor.Report
	Fixed []doctor.Finding `json:"fixed"`
}

func examine(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	if isTerminal(cmd.Root().ErrWriter) {
		o.done("Looking; this takes up to 20 seconds.")
	}
	in := doctorInput(ctx, cmd)
	x := examination{File: in.Path, Running: in.Running != nil, Report: doctor.Run(ctx, in), Fixed: []doctor.Finding{}}
	if err := ctx.Err(); err != nil {
		return err
	}
	if cmd.Bool("fix") {
		if err := x.fix(); err != nil {
			return err
		}
		if len(x.Fixed) > 0 { // it may have hidden the rest
			x.Report = doctor.Run(ctx, doctorInput(ctx, cmd))
		}
	}
	if o.asJSON {
		if err := o.json(x); err != nil {
			return err
		}
	} else {
		x.print(o)
	}
	if len(x.Findings) > 0 {
		return asReported(exited{errUnsound, exitUnsound})
	}
	return nil
}

func (x *examination) fix() error {
	for _, f := range x.Findings {
		if !f.Fixable {
			continue
		}
		if err := doctor.Fix(f); err != nil {
			return fmt.Errorf("mend %s: %w", f.Code, err)
		}
		x.Fixed = append(x.Fixed, f)
	}
	return nil
}

func (x *examination) print(o *output) {
	for _, f := range x.Fixed {
		o.wrapped("mended  ", f.What)
	}
	var area doctor.Area
	wrong := 0
	for _, f := range x.Findings {
		if f.Area != area {
			area = f.Area
			o.line("%s", area)
		}
		if !f.Weak {
			wrong++
		}
		o.finding(f)
	}
	for _, what := range x.Unexamined {
		o.wrapped("not looked at: ", what)
	}
	switch n := len(x.Findings); {
	case n > 0:
		o.line("%d wrong, %d weak", wrong, n-wrong)
	default:
		o.line("nothing is wrong or weak")
	}
}

// finding prints a finding in a few lines.
func (o *output) finding(f doctor.Finding) {
	word := o.paint("31", "wrong")
	if f.Weak {
		word = o.paint("33", "weak ")
	}
	what := f.What
	if f.Line > 0 {
		what = fmt.Sprintf("%s:%d: %s", f.File, f.Line, what)
	}
	o.wrapped("  "+word+"  ", what)
	o.wrapped("    why  ", f.Why)
	if f.Mend != "" {
		o.wrapped("   mend  ", f.Mend)
	}
	if f.Command != "" {
		o.line("    run  %s", cell(f.Command)) // in one line, to be copied
	}
	o.line("   page  %s", f.Page)
}

// columns is the width of the terminal that fits everywhere.
const columns = 80

// wrapped prints text behind a label, and goes on below its beginning where the line is full.
func (o *output) wrapped(label, text string) {
	indent := utf8.RuneCountInString(strings.NewReplacer("\x1b[31m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(label))
	line, width := label, indent
	for i, word := range strings.Fields(cell(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns:
			o.line("%s", line)
			line, width = strings.Repeat(" ", indent), indent
		default:
			line, width = line+" ", width+1
		}
		line, width = line+word, width+n
	}
	o.line("%s", line)
}

// doctorInput collects what the doctor looks at.
func doctorInput(ctx context.Context, cmd *cli.Command) (in doctor.Input) {
	in = doctor.Input{Path: configPath(ctx, cmd), Version: version(), Launcher: pluginLauncher()}
	if in.Config, in.LoadError = loadConfig(ctx, cmd); in.LoadError != nil {
		in.Config = nil
		return in
	}
	whole, err := loadWhole(ctx, cmd)
	if !errors.As(err, &in.Missing) && err == nil {
		in.Config = whole
	}
	in.Sources = configured.Sources(in.Config, buildLog(cmd))
	in.Warnings = weaknesses(in.Config, in.Sources)
	in.Running, in.Unanswered = runningState(ctx, in.Config)
	return in
}

// doctorPatience bounds the answers of the running host.
const doctorPatience = 5 * time.Second

// runningState asks the running host; nil if none answers.
func runningState(ctx context.Context, c *config.Config) (*doctor.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	var r doctor.Running
	for path, answer := range map[string]any{"/api/v1/status": &r.Status, "/api/v1/plugins": &r.Plugins, "/api/v1/logs/repeats": &r.Repeats} {
		if err := client.Ask(ctx, c, path, nil, answer); err != nil {
			if isNotRunning(err) {
				err = nil
			}
			return nil, err
		}
	}
	return &r, nil
}
