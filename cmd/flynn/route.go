package main

import (
	"github.com/urfave/cli/v3"
)

func routeCommand() *cli.Command {
	return &cli.Command{
		Name:  "route",
		Usage: "explain the routing of messages",
	}
}
