package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func haltCommand() *cli.Command {
	return &cli.Command{
		Name: "halt", Category: groupOperate,
		Usage: "halt all agents of the running flynn until flynn resume",
		Description: "Running answers end between two steps, and the programs that they run are killed at once. Messages that arrive meanwhile are\n" +
			"kept and answered afterwards. The halt survives a restart. To stop flynn itself, interrupt flynn serve.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "reason", Usage: "`WHY`, shown by /status"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return haltRunning(ctx, cmd, "/api/v1/halt", map[string]string{"reason": cmd.String("reason")})
		},
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Category: groupOperate,
		Usage: "let agents work again after flynn halt",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return haltRunning(ctx, cmd, "/api/v1/resume", map[string]string{})
		},
	}
}

func haltRunning(ctx context.Context, cmd *cli.Command, path string, body map[string]string) error {
	g, err := config.LoadGateway(configPath(ctx, cmd), getenvOf(ctx)) // an error elsewhere in the file must not block the kill switch
	if err != nil {
		return err
	}
	var answer struct {
		Halted bool `json:"halted"`
	}
	if err := client.Ask(ctx, &config.Config{Gateway: g}, path, body, &answer); err != nil {
		return err
	}
	text := "agents work again"
	if answer.Halted {
		text = "everything is halted, until: flynn resume"
	}
	return newOutput(ctx, cmd).success(answer, "%s", text)
}
