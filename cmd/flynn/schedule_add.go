package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
)

func scheduleAddCommand() *cli.Command {
	return &cli.Command{
		Name: "add", ArgsUsage: "NAME", Usage: "add a schedule to the configuration",
		Description: `An example: flynn schedule add morning --cron "0 7 * * 1-5" --text "What is on today?" --deliver telegram:12345`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cron", Usage: "run at the times of the `EXPRESSION` of five fields"},
			&cli.StringFlag{Name: "every", Usage: "run each time that the `TIME` has passed, such as 30m"},
			&cli.StringFlag{Name: "text", Usage: "send the `TEXT` to the agent"},
			&cli.StringFlag{Name: "agent", Usage: "the `NAME` of the agent (default: the one of [routing])"},
			&cli.StringFlag{Name: "as", Usage: "run in the name of the owner or member `SENDER` (default: the only owner)"},
			&cli.StringFlag{Name: "deliver", Usage: "send the answer to the `CONVERSATION` (default: the schedule's own)"},
			&cli.StringFlag{Name: "timezone", Usage: "the time `ZONE` of --cron, such as Europe/Vienna"},
			dryRunFlag(),
		},
		Action: addSchedule,
	}
}

func addSchedule(ctx context.Context, cmd *cli.Command) error {
	f, err := openConfig(ctx, cmd)
	if err != nil {
		return err
	}
	c, err := f.Load(getenvOf(ctx), host.Checks()...)
	if err != nil {
		return err
	}
	t, err := scheduleTable(cmd, c)
	if err != nil {
		return err
	}
	if err := f.Append(t, "schedules"); err != nil {
		return err
	}
	return saveConfig(ctx, cmd, f, fmt.Sprintf("Schedule %s is added.", cmd.Args().First()))
}

func scheduleTable(cmd *cli.Command, c *config.Config) (edit.Table, error) {
	t := edit.Table{"name": cmd.Args().First(), "agent": c.Routing.DefaultAgent}
	for _, key := range []string{"cron", "every", "text", "agent", "as", "deliver", "timezone"} {
		if value := cmd.String(key); value != "" {
			t[key] = value
		}
	}
	if (t["cron"] == nil) == (t["every"] == nil) {
		return nil, usagef(`needs --cron or --every, such as --cron "0 7 * * *" or --every 30m`)
	}
	if t["text"] == nil {
		return nil, usagef("needs --text, which the agent gets each time")
	}
	if t["as"] == nil {
		if len(c.Access.Owners) != 1 || strings.ContainsAny(c.Access.Owners[0], "*?[{") {
			return nil, usageError{errors.New("needs --as, the owner or member in whose name it runs, such as telegram:12345678")}
		}
		t["as"] = c.Access.Owners[0]
	}
	return t, nil
}
