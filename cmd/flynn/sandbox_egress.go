package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/sandbox/egress"

	"github.com/flynnhost/flynn/host/config"
)

func egressCommand() *cli.Command {
	return &cli.Command{
		Name: "egress", Usage: "show the connections that programs in sandboxes asked for",
		Description: "Prints the decisions of the proxy and of bridges, oldest first, whether a host runs or not. flynn sandbox exec prints the\n" +
			"connections that it was refused itself.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "session", Usage: "only those of session `ID`"},
			&cli.BoolFlag{Name: "denied", Usage: "only refused connections"},
			sinceFlag("only those after `TIME`"),
			&cli.IntFlag{Name: "limit", Usage: "only the latest `N`", Value: 1000},
		},
		Action: withConfig(showEgress),
	}
}

func showEgress(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	filter := egress.RecordFilter{Session: cmd.String("session"), Denied: cmd.Bool("denied"), Limit: cmd.Int("limit")}
	if filter.Limit <= 0 {
		return usagef("--limit: must be a number above 0")
	}
	var err error
	if filter.Since, err = sinceOf(cmd); err != nil {
		return err
	}
	q := sinceQuery(filter.Since)
	q.Set("session", filter.Session)
	q.Set("denied", strconv.FormatBool(filter.Denied))
	records, err := pagesOrRead(ctx, c, "/api/v1/egress", q, filter.Limit, func() ([]egress.Record, error) {
		records, err := admin.Egress(ctx, c, filter)
		slices.Reverse(records)
		return records, err
	})
	slices.Reverse(records) // lists begin with the latest
	if err != nil {
		return err
	}
	header := []string{"TIME", "KIND", "DECISION", "METHOD", "TARGET", "UP", "DOWN", "SESSION", "REASON"}
	return printListOr(newOutput(ctx, cmd), records, "no connection was asked for: network = \"allowlist\" under [sandbox] lets programs ask", header, func(r egress.Record) []string {
		return []string{
			localTime(r.At), r.Kind, egressDecision(r), r.Method, egressTarget(r), byteCount(r.Up, r.Ended), byteCount(r.Down, r.Ended), string(r.Session), r.Reason,
		}
	})
}

func egressDecision(r egress.Record) string {
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

// byteCount returns a number of bytes as text, or "" while the connection is open.
func byteCount(n int64, ended time.Time) string {
	if ended.IsZero() {
		return ""
	}
	return number(n)
}
