package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/plugin/conform"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

func pluginConformCommand() *cli.Command {
	return &cli.Command{
		Name:      "conform",
		ArgsUsage: "DIR",
		Usage:     "check that a plugin obeys the contract",
		Description: "Each check starts the plugin as the host would, does one thing to it and stops it. Settings that work, and a program\n" +
			"that pretends to be the platform, come from conform.toml beside plugin.toml. The exit code is 1 if a check fails;\n" +
			"a check that could not run is shown as skipped, with the reason.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "check", Usage: "run only the check `NAME`; may be repeated"},
			&cli.DurationFlag{Name: "limit", Value: 30 * time.Second, Usage: "time limit of one check", Validator: positive},
			&cli.BoolFlag{Name: "verbose", Usage: "show the plugin's output"},
		},
		Action: conformPlugin,
	}
}

func conformPlugin(ctx context.Context, cmd *cli.Command) error {
	out := newOutput(ctx, cmd)
	c := conform.Config{Dir: cmd.Args().First(), Config: suite.Config{Limit: cmd.Duration("limit"), Only: cmd.StringSlice("check")}}
	if cmd.Bool("verbose") {
		c.Log = slog.New(slog.NewTextHandler(out.err, nil))
	}
	if !out.asJSON {
		c.Done = func(r suite.Result) { showCheck(out, r) }
	}
	report, err := conform.Run(ctx, c)
	if err != nil {
		return err
	}
	failed := report.Count(suite.Fail)
	err = out.result(report, "%s %s: %d passed, %d failed, %d skipped",
		report.Plugin, report.Version, report.Count(suite.Pass), failed, report.Count(suite.Skip))
	if err == nil && failed > 0 {
		return reported{fmt.Errorf("%d checks failed", failed)}
	}
	return err
}

// showCheck prints one result.
func showCheck(out *output, r suite.Result) {
	out.line("%-4s  %-25s %6d ms  %s", r.Outcome, r.Check, r.TookMS, cell(r.Detail))
	if r.Next != "" {
		out.line("      next: %s", r.Next)
	}
}
