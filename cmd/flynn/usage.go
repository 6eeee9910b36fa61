package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

func usageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "show the usage and cost of model calls", Action: showUsage,
		Commands: []*cli.Command{{
			Name: "held", Usage: "show the disk, sandboxes and processes that each sender holds", Action: showHeld,
			Description: "Sessions, what their workspaces take on the disk and files of theirs in the media store, sandboxes that live and processes in\n" +
				"the background, of a host that runs as of one that does not. What a sender may hold is said in [limits].",
		}},
		Description: "Sums of tokens and US dollars, by the prices of [models.TIER.prices], of a host that runs as of one that does not. What a day\n" +
			"may cost is said in [budgets].",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Usage: "sum by `KEY`: sender, agent, session, model, day, task or all", Value: string(usage.ByDay)},
			&cli.StringFlag{Name: "since", Usage: "only calls after `TIME`: 90m, 7d, 2026-03-01 or 2026-03-01T12:00:00Z"},
		},
	}
}

func showHeld(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef("usage held takes no argument")
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	var held []gateway.Held
	if err := client.Ask(ctx, c, "/api/v1/usage/held", nil, &held); err != nil {
		if !errors.Is(err, client.ErrNotRunning) {
			o.warn("background processes are not counted: %v", err)
		}
		if held, err = admin.Held(ctx, c); held == nil && err != nil {
			return err
		} else if err != nil {
			o.warn("sandboxes are not counted: %v", err)
		}
	}
	if o.asJSON {
		return o.json(held)
	}
	var rows [][]string
	for _, h := range held {
		rows = append(rows, []string{
			h.Sender, strconv.Itoa(h.Sessions), quota.Size(h.Bytes), quota.Size(h.Media), strconv.Itoa(h.Sandboxes),
			strconv.Itoa(h.Processes), strconv.Itoa(h.HostProcesses),
		})
	}
	return o.table([]string{"SENDER", "SESSIONS", "DISK", "MEDIA", "SANDBOXES", "PROCESSES", "ON HOST"}, rows)
}

func showUsage(ctx context.Context, cmd *cli.Command) error {
	by := usage.Key(cmd.String("by"))
	if cmd.Args().Present() {
		return usagef("usage takes no argument")
	}
	if !slices.Contains(usage.Keys(), by) {
		return usagef("--by: %q is no key; write sender, agent, session, model, day, task or all", by)
	}
	since, err := when("since", cmd.String("since"), time.Now())
	if err != nil {
		return err
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	sums, err := admin.Usage(ctx, c, by, since)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(sums)
	}
	var rows [][]string
	for _, s := range sums {
		row := []string{s.Key}
		for _, n := range []int64{s.Calls, s.Failed, s.Input, s.Output, s.CacheRead, s.CacheWrite} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.4f", s.CostUSD)))
	}
	return o.table([]string{strings.ToUpper(string(by)), "CALLS", "FAILED", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "USD"}, rows)
}
