package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/hostlog"
)

func logsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Category: groupOperate, Usage: "show the log of the running flynn, or the way of one message", ArgsUsage: "[TURN]",
		Action: withConfig(showLogs),
		Description: "Prints the last records that the running flynn keeps in memory: some thousand, from its start on. Everything it ever logged is\n" +
			"where its standard error goes, with flynn service install the journal of the system.\n" +
			"TURN is the id of a turn, or message/N: then the way of that message comes first, as flynn explain prints it, and then the\n" +
			"records about it.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing new records"},
			&cli.StringFlag{Name: "level", Usage: "only records of `LEVEL` or above: debug, info, warn or error"},
			&cli.StringFlag{Name: "area", Usage: "only records of an `AREA` of the host, such as channel, agent, model, plugin or sandbox"},
			&cli.StringFlag{Name: "channel", Usage: "only records about the channel or provider of tools `NAME`"},
			&cli.StringFlag{Name: "session", Usage: "only records about the session `KEY`"},
			&cli.IntFlag{Name: "limit", Usage: "only the latest `N`", Value: 200},
		},
	}
}

func showLogs(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	q := url.Values{}
	for _, name := range []string{"level", "area", "channel", "session"} {
		if v := cmd.String(name); v != "" {
			q.Set(name, v)
		}
	}
	if cmd.Int("limit") < 1 || cmd.Int("limit") > 2000 {
		return usagef("--limit: must be 1 to 2000")
	}
	if level := cmd.String("level"); level != "" && !slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		return usagef("--level %q: must be debug, info, warn or error", level)
	}
	q.Set("limit", strconv.Itoa(cmd.Int("limit")))
	o := newOutput(ctx, cmd)
	if turn := cmd.Args().First(); turn != "" {
		q.Set("turn", turn)
		if err := showWay(ctx, o, c, turn); err != nil {
			return err
		}
	}
	return o.follow(ctx, c, q, cmd.Bool("follow"))
}

// showWay prints the trail of a message.
func showWay(ctx context.Context, o *output, c *config.Config, turn string) error {
	t, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/turns/"+url.PathEscape(turn), nil, func() (explain.Trace, error) {
		return admin.Explain(ctx, c, turn)
	})
	if err != nil {
		return err
	}
	if o.asJSON {
		return o.value(t)
	}
	o.line("%s", strings.TrimRight(t.Text(), "\n"))
	o.line("")
	return nil
}

// follow prints the records that a query chooses, and with on those that come after them.
func (o *output) follow(ctx context.Context, c *config.Config, q url.Values, on bool) error {
	for {
		var page gateway.Page[hostlog.Record]
		switch err := client.Get(ctx, c, "/api/v1/logs?"+q.Encode(), &page); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return startHint(err)
		}
		for _, r := range page.Items {
			if err := o.record(r); err != nil {
				return err
			}
		}
		if !on {
			if len(page.Items) == 0 {
				o.done("no records: leave out filters, or keep watching with --follow")
			}
			return nil
		}
		q.Set("limit", "2000")
		q.Set("cursor", page.Next)
		select {
		case <-time.After(followPoll):
		case <-ctx.Done():
			return nil
		}
	}
}

// record prints one record of the log.
func (o *output) record(r hostlog.Record) error {
	if o.asJSON {
		return o.value(r)
	}
	_, err := fmt.Fprintln(o.out, recordLine(r, "2006-01-02 15:04:05.000"))
	return err
}

// recordLine returns a record as one line of text.
func recordLine(r hostlog.Record, layout string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %-5s %-8s %s", r.Time.Local().Format(layout), r.Level, r.Area, r.Message)
	for _, a := range r.Attrs {
		value := a.Value
		if strings.ContainsAny(value, " \"\n=") || value == "" {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&text, " %s=%s", a.Key, value)
	}
	return cell(text.String())
}
