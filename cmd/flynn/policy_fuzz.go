package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/fuzz"
)

func fuzzCommand() *cli.Command {
	return &cli.Command{
		Name: "fuzz", Usage: "fuzz a policy", ArgsUsage: "[DIR]", Action: fuzzPolicy,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Usage: "how long", Value: 30 * time.Second, Validator: positive},
			&cli.IntFlag{Name: "runs", Usage: "end after `N` executions, in place of --for"},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the random choices; the same seed and runs find the same"},
			&cli.StringFlag{Name: "corpus", Usage: "start from the inputs in `DIR`, and keep new ones there"},
			&cli.StringFlag{Name: "finds", Usage: "write finds to `DIR` (default: finds/ in the policy's folder)"},
		},
	}
}

func fuzzPolicy(ctx context.Context, cmd *cli.Command) error {
	o := newOutput(ctx, cmd)
	r, err := fuzz.Run(ctx, fuzzConfig(cmd, o))
	if err != nil {
		return err
	}
	if err := printFuzz(o, r); err != nil {
		return err
	}
	if len(r.Finds) > 0 {
		return reported{errors.New("the policy gave bad answers")}
	}
	return nil
}

func fuzzConfig(cmd *cli.Command, o *output) fuzz.Config {
	c := fuzz.Config{
		Dir: policyDirs(cmd)[0], Seed: cmd.Uint64("seed"), For: cmd.Duration("for"), Executions: cmd.Int("runs"),
		Corpus: cmd.String("corpus"), Finds: cmd.String("finds"),
	}
	if !cmd.IsSet("seed") {
		c.Seed = rand.Uint64N(1_000_000)
	}
	if c.Executions > 0 && !cmd.IsSet("for") {
		c.For = 0
	}
	if c.Finds == "" {
		c.Finds = filepath.Join(c.Dir, "finds")
	}
	if !o.asJSON {
		c.Progress = func(r fuzz.Report) {
			fmt.Fprintf(o.err, "%v: %d executions, %.0f a second, %d inputs, %d of %d blocks, %d finds\n",
				r.Took.Round(time.Second), r.Executions, r.PerSecond, r.Corpus, r.Covered, r.Blocks, len(r.Finds))
		}
	}
	return c
}

func printFuzz(o *output, r fuzz.Report) error {
	if o.asJSON {
		return o.json(r)
	}
	for _, f := range r.Finds {
		o.line("FIND  %s: %s", f.Invariant, cell(f.What))
		o.line("      answer: %s", cell(f.Answer.String()))
		if f.Than != nil {
			o.line("      than:   %s", cell(f.Than.String()))
		}
		o.line("      from the case %q", f.Case)
		for _, c := range f.Changes {
			o.line("      %s", cell(c))
		}
		for _, file := range f.Files {
			o.line("      written to %s", file)
		}
	}
	o.line("%s: seed %d, %d executions in %v, %.0f a second; %d inputs run %d of %d blocks, the cases %d; %d finds",
		r.Policy, r.Seed, r.Executions, r.Took.Round(time.Millisecond), r.PerSecond, r.Corpus, r.Covered, r.Blocks, r.ByCases, len(r.Finds))
	return nil
}
