package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func lintPoliciesCommand() *cli.Command {
	since := sinceFlag("read the decision log from `TIME` on; 0 ignores it")
	since.Value = "7d"
	return &cli.Command{
		Name: "lint", Usage: "find policies of the configuration that conflict", ArgsUsage: "[DIR...]", Action: withConfig(lintPolicies),
		Description: "Checks the configured policies as \"flynn config check\" does, runs the test cases beside their modules, and reads their\n" +
			"recorded decisions. DIR is the folder of a policy that should be in force. Exits with 1 if there are findings.",
		Flags: []cli.Flag{
			since,
		},
	}
}

// lintReport is the JSON of flynn policy lint.
type lintReport struct {
	File      string         `json:"file"`
	Policies  int            `json:"policies"`
	Cases     int            `json:"cases"`     // test cases that ran
	Decisions int            `json:"decisions"` // recorded decisions that were read
	Findings  []config.Error `json:"findings"`
}

var errFindings = errors.New("there are findings")

func lintPolicies(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	sources := configured.Sources(cfg, buildLog(cmd))
	r := lintReport{File: cfg.Path, Policies: len(sources), Findings: append([]config.Error{}, lint.Policies(cfg, sources)...)}
	add := func(found []config.Error, err error) error {
		r.Findings = append(r.Findings, found...)
		return err
	}
	if err := add(lint.Named(cfg, sources, cmd.Args().Slice())); err != nil {
		return err
	}
	found, cases, err := lint.Chain(ctx, cfg, sources)
	if err := add(found, err); err != nil {
		return fmt.Errorf("run the policies' test cases: %w", err)
	}
	r.Cases = cases
	if cmd.String("since") != "0" {
		since, err := sinceOf(cmd)
		if err != nil {
			return err
		}
		found, r.Decisions, err = lintLog(ctx, cfg, sources, since)
		if err := add(found, err); err != nil {
			return fmt.Errorf("read the decision log: %w", err)
		}
	}
	return r.print(newOutput(ctx, cmd))
}

func lintLog(ctx context.Context, cfg *config.Config, sources []policy.Source, since time.Time) (found []config.Error, seen int, err error) {
	log := decisionsOf{cfg}.EachDecision(ctx, journal.DecisionFilter{Since: since, WithoutCalls: true})
	return lint.Log(cfg, sources, log)
}

func (r lintReport) print(o *output) error {
	if o.asJSON {
		if err := o.json(r); err != nil {
			return err
		}
	} else {
		for _, f := range r.Findings {
			o.line("%v", f)
		}
	}
	if len(r.Findings) > 0 {
		return reported{errFindings}
	}
	return nil
}
