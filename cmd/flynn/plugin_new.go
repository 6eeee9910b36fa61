package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/plugin/scaffold"
)

func pluginNewCommand() *cli.Command {
	return &cli.Command{
		Name:      "new",
		ArgsUsage: "NAME",
		Usage:     "write a skeleton plugin into a new folder",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "lang", Value: "go", Usage: "write it in `LANGUAGE`: go or node"},
			&cli.StringFlag{Name: "kind", Value: "channel", Usage: "write a plugin of `KIND`: channel, tools or sandbox"},
		},
		Action: newPlugin,
	}
}

func newPlugin(ctx context.Context, cmd *cli.Command) error {
	dir, err := scaffold.Write(scaffold.Config{
		Name: cmd.Args().First(), Language: cmd.String("lang"), Kind: kind.Name(cmd.String("kind")), Release: buildinfo.Version(),
	})
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).result(map[string]string{"dir": dir}, "%s is a plugin that works: read %s/README.md for the next step", dir, dir)
}
