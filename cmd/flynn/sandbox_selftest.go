package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

func selftestCommand(name cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "selftest", Usage: "attack a sandbox from inside, and report which defences hold",
		Description: "Tries about a hundred attacks in a sandbox of this engine, image and configuration. Prints pass, weak (the configuration\n" +
			"allows it) or fail, with the setting to change, and fails if an attack does. No packet leaves this machine: public\n" +
			"addresses are tried only in a container that has no interface but the loopback.\n" +
			"A driver of a plugin is used only after its attacks have failed: the host tries them before the first use, and this command records\n" +
			"its outcome as well, unless --run leaves some out.\n" +
			"With --controls every attack also runs in a container weakened on purpose, in which it must succeed. Some of these\n" +
			"containers have, for a moment, many rights on this machine; only this program's own attacks run in them.",
		Flags: []cli.Flag{
			name,
			&cli.BoolFlag{Name: "controls", Usage: "also run each attack without its defence, to show that it can succeed"},
			&cli.StringFlag{Name: "run", Usage: "only the attacks whose name matches the `REGEXP`"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "list defended attacks too"},
		},
		Action: selftestSandbox,
	}
}

var errNotHeld = errors.New("the sandbox does not hold")

func selftestSandbox(ctx context.Context, cmd *cli.Command) error {
	only, err := matching(cmd.String("run"))
	if err != nil {
		return err
	}
	return withSandboxes(ctx, cmd, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		ctx, stop := out.noticed(ctx)
		defer stop()
		suite, err := newSuite(ctx, s, cmd, selftest.Config{Only: only, Progress: printer(cmd, out)})
		if err != nil {
			return err
		}
		report, err := suite.Run(ctx)
		if err == nil && cmd.String("run") == "" {
			err = s.Record(ctx, cmd.String("sandbox"), report)
		}
		if err != nil {
			return err
		}
		if err := showReport(out, report); err != nil {
			return err
		}
		if !report.OK() {
			return reported{errNotHeld}
		}
		return nil
	})
}

// newSuite completes c from the configuration.
func newSuite(ctx context.Context, s *sandboxes.Admin, cmd *cli.Command, c selftest.Config) (*selftest.Suite, error) {
	var err error
	if c.Spec, err = s.Spec(cmd.String("sandbox")); err != nil {
		return nil, err
	}
	c.Log, c.Driver = sandboxLog(cmd), fleet.Attacked(s.Driver)
	if err := selftest.FindPrograms(&c, c.Log); err != nil {
		return nil, err
	}
	if c.Spec, err = s.Prepared(ctx, c.Spec, c.Log); err != nil {
		return nil, err
	}
	c.Log = nil // the report says which attacks were refused
	c.Dir, c.Controls, c.MountRules = s.Root, cmd.Bool("controls"), s.MountRules
	return selftest.New(c)
}

// printer returns a function that prints outcomes as they come, those of defended attacks only with --verbose.
func printer(cmd *cli.Command, out *output) func(selftest.Outcome) {
	verbose := cmd.Bool("verbose")
	return func(o selftest.Outcome) {
		spoilt := o.Control != nil && !o.Control.Failed
		if out.asJSON || o.Status == selftest.Pass && !spoilt && !verbose {
			return
		}
		out.line("%-4s  %-28s  %s", o.Status, o.Name, cell(o.Detail))
		if o.Status != selftest.Pass {
			out.line("      why it matters: %s", o.Why)
			out.line("      what to change: %s", o.Setting)
		}
		if spoilt {
			out.line("      control: the attack failed in a weakened container as well: %s", cell(o.Control.Detail))
		}
	}
}

func showReport(out *output, r selftest.Report) error {
	controls := ""
	if n := len(r.Outcomes); n > 0 && r.Outcomes[0].Control != nil {
		controls = fmt.Sprintf("; %d of %d controls succeeded", r.Controlled, n)
	}
	return out.result(r, "%s, image %s, network %s: %d pass, %d weak, %d fail%s", r.Engine, r.Image, r.Network, r.Passed, r.Weak, r.Failed, controls)
}
