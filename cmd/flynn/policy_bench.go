package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/policy/author"
)

func benchPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "benchmark a policy's decisions on this machine", ArgsUsage: "[DIR]", Action: benchPolicy,
		Description: "Runs the built module's own test cases again and again: warm, and reset to its first state before each decision; with one\n" +
			"worker and with one for each core. Fuel is exact and the same on every machine.",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "time", Usage: "run each benchmark for `DURATION`", Value: time.Second, Validator: positive},
			&cli.IntFlag{Name: "max-fuel", Usage: "fail when a case costs more than `UNITS` of fuel; 0 means the policy's own limit"},
		},
	}
}

var errTooDear = errors.New("a case costs more fuel than --max-fuel allows")

func benchPolicy(ctx context.Context, cmd *cli.Command) error {
	r, err := author.Bench(ctx, policyDirs(cmd)[0], cmd.Duration("time"))
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		err = o.json(r)
	} else {
		err = printBench(o, r)
	}
	if most := int64(cmd.Int("max-fuel")); err == nil && most > 0 && r.Fuel.Max > most {
		return fmt.Errorf("%w: %q costs %d", errTooDear, r.Fuel.Worst, r.Fuel.Max)
	}
	return err
}

func printBench(o *output, r author.BenchReport) error {
	o.line("%s: %s, %d cases", r.Policy, units.HumanSize(float64(r.Bytes)), r.Cases)
	o.line("loads in %v, from the cache in %v; an instance has %s of memory", round(r.Compile), round(r.Cached), units.BytesSize(float64(r.Memory)))
	o.line("fuel: p50 %d, at most %d in %q, %.1f %% of the limit of %d", r.Fuel.P50, r.Fuel.Max, r.Fuel.Worst, percent(r.Fuel.Max, r.Fuel.Limit), r.Fuel.Limit)
	o.line("")
	var rows [][]string
	for _, run := range r.Runs {
		rows = append(rows, []string{
			run.Isolation, fmt.Sprint(run.Workers), fmt.Sprint(run.P50), fmt.Sprint(run.P95), fmt.Sprint(run.P99), fmt.Sprintf("%.0f", run.PerSecond),
		})
	}
	return o.table([]string{"ISOLATION", "WORKERS", "P50", "P95", "P99", "DECISIONS/S"}, rows)
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}
