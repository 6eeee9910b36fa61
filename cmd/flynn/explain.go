package main

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/observe/explain"

	"github.com/flynnhost/flynn/host/config"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name: "explain", Category: groupOperate, Usage: "show how a message was handled, and which rule or policy decided each step", ArgsUsage: "[TURN]", Action: withConfig(explainTurn),
		Description: "One line for each event of a turn: its messages, the route, each step with model, tokens and cost, each tool call with every restriction\n" +
			"and its reason, approvals, and the delivery, as they were recorded at the time.\n" +
			"TURN is the id of a turn, or message/N for a message that no turn has taken.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "last", Usage: "explain the latest message"},
			&cli.StringFlag{Name: "channel", Usage: "with --last: the latest of the channel `NAME`"},
			&cli.StringFlag{Name: "conversation", Usage: "with --last: the latest of the conversation `ID`"},
		},
	}
}

func explainTurn(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	id, last, channel, conversation := cmd.Args().First(), cmd.Bool("last"), cmd.String("channel"), cmd.String("conversation")
	switch {
	case last == (id != ""):
		return usagef("name one turn, or write --last")
	case !last && (channel != "" || conversation != ""):
		return usagef("--channel and --conversation go with --last")
	}
	read, path := func() (explain.Trace, error) { return admin.Explain(ctx, c, id) }, "/"+url.PathEscape(id)
	if last {
		read = func() (explain.Trace, error) { return admin.ExplainLast(ctx, c, channel, conversation) }
		path = "/latest?" + url.Values{"channel": {channel}, "conversation": {conversation}}.Encode()
	}
	t, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/turns"+path, nil, read)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(t)
	}
	_, err = io.WriteString(o.out, t.Text())
	return err
}
