package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/doctor"
	"github.com/flynnhost/flynn/host/buildinfo"
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
	File string `json:"file"`
	doctor.Report
	Fixed []doctor.Finding `json:"fixed"`
}

func examine(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	if isTerminal(cmd.Root().ErrWriter) {
		o.done("Looking; this takes up to 20 seconds.")
	}
	subject := doctorSubject(ctx, cmd)
	x, err := examination{File: subject.Path, Fixed: []doctor.Finding{}}, error(nil)
	if x.Report, err = doctor.Run(ctx, subject); err != nil {
		return err
	}
	if cmd.Bool("fix") {
		if err := x.fix(); err != nil {
			return err
		}
		if len(x.Fixed) > 0 { // it may have hidden the rest
			if x.Report, err = doctor.Run(ctx, subject); err != nil {
				return err
			}
		}
	}
	if o.asJSON {
		if err := o.json(x); err != nil {
			return err
		}
	} else {
		for _, line := range append(doctor.Mended(x.Fixed), x.Lines(o.paint)...) {
			o.line("%s", line)
		}
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

// doctorSubject is the Flynn that the doctor looks at.
func doctorSubject(ctx context.Context, cmd *cli.Command) doctor.Subject {
	return doctor.Subject{
		Path: configPath(ctx, cmd), Getenv: getenvOf(ctx), Checks: host.Checks(), Launcher: pluginLauncher(), Version: buildinfo.Version(), Log: buildLog(cmd),
	}
}
