package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/author"
)

func watchPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "build, test and install a policy at every save", ArgsUsage: "[DIR]", Action: watchPolicy,
		Description: "A module that cannot be built, or that fails a test case, is not installed. A running host whose configuration has the\n" +
			"module's path puts each new one in force by itself.",
	}
}

func watchPolicy(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	return author.Watch(ctx, policyDirs(cmd)[0], func(r author.Round) { printRound(o, r) })
}

func printRound(o *output, r author.Round) {
	if o.asJSON {
		_ = o.value(r) // one line each; a closed pipe ends the program
		return
	}
	for _, c := range r.Report.Cases {
		if !c.Passed {
			printCase(o, c)
		}
	}
	if r.Error != "" {
		o.line("%s", r.Error)
		return
	}
	o.line("%s: built in %v, %d cases passed in %v, in place", r.Report.Policy, round(r.Build), r.Report.Passed, round(r.Test))
}
