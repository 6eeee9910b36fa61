package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/admin/doctor"
	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/policy/configured"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Category: groupOperate, Usage: "find what is wrong or weak, and say how to mend it",
		Description: "Looks at configuration, store, models, channels, sandbox, plugins, policies, files and clock, and asks the running flynn, if one\n" +
			"runs. Each finding has a code, which docs/help/doctor.md explains. Models are not asked for an answer, so it costs nothing.\n" +
			"The exit code is 0 if nothing was found, and 1 if something was.",
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "fix", Usage: "mend what is safe to mend: take the rights of others from files with secrets"}},
		Action: examine,
	}
}

var errUnsound = errors.New("something is wrong or weak")

// examination is the JSON of flynn doctor.
type examination struct {
	File     string           `json:"file"`
	Running  bool             `json:"running"`
	Findings []doctor.Finding `json:"findings"`
	Fixed    []doctor.Finding `json:"fixed"`
}

func examine(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	in := doctorInput(ctx, cmd)
	x := examination{File: configPath(ctx, cmd), Running: in.Running != nil, Findings: doctor.Run(ctx, in), Fixed: []doctor.Finding{}}
	if cmd.Bool("fix") {
		if err := x.fix(); err != nil {
			return err
		}
		if len(x.Fixed) > 0 { // what it hid may be found now
			x.Findings = doctor.Run(ctx, doctorInput(ctx, cmd))
		}
	}
	if x.Findings == nil {
		x.Findings = []doctor.Finding{}
	}
	if o.asJSON {
		if err := o.json(x); err != nil {
			return err
		}
	} else {
		x.print(o)
	}
	if len(x.Findings) > 0 {
		return asReported(errUnsound)
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
		o.line("mended [%s] %s", f.Code, cell(f.What))
	}
	for _, f := range x.Findings {
		word := o.paint("31", "wrong")
		if f.Weak {
			word = o.paint("33", "weak ")
		}
		place := ""
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d: ", f.File, f.Line)
		}
		o.line("%s [%s] %s%s: %s. Mend it: %s", word, f.Code, cell(place), cell(f.What), f.Why, cell(f.Mend))
	}
	switch n := len(x.Findings); {
	case n > 0:
		o.done("%d found; docs/help/doctor.md explains each code", n)
	case x.Running:
		o.done("nothing is wrong or weak")
	default:
		o.done("nothing is wrong or weak; no flynn is running, so its channels and its log were not looked at: flynn serve")
	}
}

// doctorInput loads what doctor looks at. A configuration that cannot be loaded is a finding.
func doctorInput(ctx context.Context, cmd *cli.Command) (in doctor.Input) {
	if in.Config, in.LoadError = loadWhole(ctx, cmd); in.LoadError != nil {
		in.Config = nil
		return in
	}
	in.Sources = configured.Sources(in.Config)
	in.Senders = access.Warnings(in.Config)
	in.Weak = append(in.Weak, in.Config.Renamed...)
	in.Weak = append(in.Weak, routeWarnings(in.Config)...)
	in.Weak = append(in.Weak, lint.Policies(in.Config, in.Sources)...)
	in.Weak = append(in.Weak, lint.Networks(in.Config)...)
	in.Running = runningState(ctx, in.Config)
	return in
}

// runningState asks the running host; nil if none answers.
func runningState(ctx context.Context, c *config.Config) *doctor.Running {
	var r doctor.Running
	if client.Ask(ctx, c, "/api/v1/status", nil, &r.Status) != nil {
		return nil
	}
	_ = client.Ask(ctx, c, "/api/v1/logs/repeats", nil, &r.Repeats) // a host of the last release has no such route
	return &r
}
