package main

import (
	"context"

	"github.com/urfave/cli/v3"

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
			&cli.StringFlag{Name: "kind", Value: "channel", Usage: "write a plugin of `KIND`: channel or tools"},
		},
		Action: newPlugin,
	}
}

func newPlugin(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	dir, err := scaffold.Write(scaffold.Config{
		Name: name, Language: cmd.String("lang"), Kind: kind.Name(cmd.String("kind")), Release: version(),
	})
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		return out.json(map[string]string{"dir": dir})
	}
	out.line("%s is a plugin that works: read %s/README.md for the next step", dir, dir)
	return nil
}
