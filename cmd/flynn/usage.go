package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/sandbox/quota"

	"github.com/flynnhost/flynn/host/config"
)

func usageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Category: groupOperate, Usage: "show the usage and cost of model calls", Action: withConfig(showUsage),
		Commands: []*cli.Command{{
			Name: "held", Usage: "show the disk, sandboxes and processes that each sender holds", Action: withConfig(showHeld),
			Description: "Sessions, the disk space of their workspaces and of their files in the media store, live sandboxes and background\n" +
				"processes, whether a host runs or not. [limits] sets what a sender may hold.",
		}},
		Description: "Sums of tokens and US dollars, by the prices of [models.TIER.prices] at the time of the call; what has no price is unknown. Works whether a host runs or not. [budgets] sets what a day\n" +
			"may cost.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Usage: "sum by `KEY`: sender, agent, session, model, day, task or all", Value: string(usage.ByDay)},
			sinceFlag("only calls after `TIME`"),
		},
	}
}

func showHeld(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	o := newOutput(ctx, cmd)
	var held []gateway.Held
	if err := client.Get(ctx, c, "/api/v1/usage/held", &held); err != nil {
		if !errors.Is(err, client.ErrNotRunning) {
			o.warn("background processes are not counted: %v", err)
		}
		if held, err = admin.Held(ctx, c, pluginLauncher()); held == nil && err != nil {
			return err
		} else if err != nil {
			o.warn("sandboxes are not counted: %v", err)
		}
	}
	return printListOr(o, held, "nobody holds anything yet: talk to an agent with flynn chat", []string{"SENDER", "SESSIONS", "DISK", "SNAPSHOTS", "MEDIA", "SANDBOXES", "PROCESSES", "ON HOST"}, func(h gateway.Held) []string {
		return []string{
			string(h.Sender), number(h.Sessions), quota.Size(h.Bytes), quota.Size(h.Snapshots), quota.Size(h.Media), number(h.Sandboxes), number(h.Processes), number(h.HostProcesses),
		}
	})
}

func showUsage(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	by := usage.Key(cmd.String("by"))
	if !slices.Contains(usage.Keys(), by) {
		return usagef("--by: %q is not a key; write sender, agent, session, model, day, task or all", by)
	}
	since, err := sinceOf(cmd)
	if err != nil {
		return err
	}
	q := sinceQuery(since)
	q.Set("by", string(by))
	sums, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/usage?"+q.Encode(), nil, func() ([]gateway.UsageSum, error) {
		return admin.Usage(ctx, c, by, since)
	})
	if err != nil {
		return err
	}
	header := []string{strings.ToUpper(string(by)), "CALLS", "FAILED", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "USD"}
	return printListOr(newOutput(ctx, cmd), sums, "no model call was counted: talk to an agent with flynn chat, or choose an earlier --since", header, func(s gateway.UsageSum) []string {
		return []string{
			s.Key, number(s.Calls), number(s.Failed), number(s.Input), number(s.Output), number(s.CacheRead), number(s.CacheWrite),
			s.Cost(),
		}
	})
}
