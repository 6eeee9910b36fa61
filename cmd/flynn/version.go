package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/buildinfo"
)

func versionCommand() *cli.Command {
	return &cli.Command{Name: "version", Category: groupOperate, Usage: "print the version, commit and date of this program", Action: printVersion}
}

func printVersion(ctx context.Context, cmd *cli.Command) error {
	i := buildinfo.Get()
	text := "flynn " + i.Version
	for _, part := range []string{i.Commit, i.Date} {
		if part != "" {
			text += ", " + part
		}
	}
	return newOutput(ctx, cmd).result(i, "%s, %s %s/%s", text, i.Go, i.OS, i.Arch)
}
