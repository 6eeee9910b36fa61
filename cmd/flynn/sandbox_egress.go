package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

func egressCommand() *cli.Command {
	return &cli.Command{
		Name: "egress", Usage: "show the connections that programs in sandboxes asked for",
		Description: "Prints the decisions of the proxy and of bridges, oldest first, of a host that runs as of one that does not.\n" +
			"What the proxy refuses to flynn sandbox exec is printed there.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "session", Usage: "only those of session `ID`"},
			&cli.BoolFlag{Name: "denied", Usage: "only refused connections"},
			&cli.DurationFlag{Name: "since", Usage: "only those of the last `DURATION`"},
			&cli.IntFlag{Name: "limit", Usage: "only the latest `N`", Value: 1000},
		},
		Action: showEgress,
	}
}

func showEgress(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	filter := egress.RecordFilter{Session: cmd.String("session"), Denied: cmd.Bool("denied"), Limit: cmd.Int("limit")}
	if filter.Limit <= 0 {
		return usagef("--limit: must be a number above 0")
	}
	if since := cmd.Duration("since"); since > 0 {
		filter.Since = time.Now().Add(-since)
	}
	records, err := admin.Egress(ctx, c, filter)
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		if records == nil {
			records = []egress.Record{}
		}
		return out.json(records)
	}
	var rows [][]string
	for _, r := range records {
		rows = append(rows, []string{
			r.At.Local().Format(time.DateTime), r.Kind, verdictOf(r), cell(r.Method), cell(egressTarget(r)), carried(r.Up, r.Ended), carried(r.Down, r.Ended),
			r.Session, cell(r.Reason),
		})
	}
	return out.table([]string{"TIME", "KIND", "VERDICT", "METHOD", "TARGET", "UP", "DOWN", "SESSION", "REASON"}, rows)
}

func verdictOf(r egress.Record) string {
	switch {
	case !r.Allowed:
		return "denied"
	case r.Credential:
		return "allowed, with credential"
	}
	return "allowed"
}

func egressTarget(r egress.Record) string {
	if r.Port == 0 {
		return r.Host
	}
	return fmt.Sprintf("%s:%d", r.Host, r.Port)
}

// carried is a number of bytes, once it is known.
func carried(n int64, ended time.Time) string {
	if ended.IsZero() {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
