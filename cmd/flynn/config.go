package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "check and show the configuration",
		Commands: []*cli.Command{
			{Name: "check", Usage: "print every error of the configuration", Action: checkConfig},
		},
	}
}

func checkConfig(ctx context.Context, cmd *cli.Command) error {
	_, err := config.Load(configPath(ctx, cmd), getenvOf(ctx))
	return err
}
