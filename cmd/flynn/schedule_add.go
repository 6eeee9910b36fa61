package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/agent/schedule"
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
	f, c, err := loadForEdit(ctx, cmd)
	if err != nil {
		return err
	}
	values := schedule.Values{}
	for _, key := range schedule.Keys() {
		if value := cmd.String(key); value != "" {
			values[key] = value
		}
	}
	var incomplete schedule.Incomplete
	if err := schedule.Add(f, c, cmd.Args().First(), values); errors.As(err, &incomplete) {
		return usagef("%s", incomplete.Words("--"))
	} else if err != nil {
		return err
	}
	return saveConfig(ctx, cmd, f, fmt.Sprintf("Schedule %s is added.", cmd.Args().First()))
}
