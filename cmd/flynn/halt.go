package main

import (
	"context"
	"net/http"

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
			return haltRunning(ctx, cmd, http.MethodPut, map[string]string{"reason": cmd.String("reason")})
		},
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Category: groupOperate,
		Usage: "let agents work again after flynn halt",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return haltRunning(ctx, cmd, http.MethodDelete, nil)
		},
	}
}

// haltRunning puts the halt in force, or ends it.
func haltRunning(ctx context.Context, cmd *cli.Command, method string, body any) error {
	g, err := config.LoadGateway(configPath(ctx, cmd), getenvOf(ctx)) // an error elsewhere in the file must not block the kill switch
	if err != nil {
		return err
	}
	if err := client.Ask(ctx, &config.Config{Gateway: g}, method, "/api/v1/halt", body, nil); err != nil {
		return err
	}
	text, halted := "agents work again", method == http.MethodPut
	if halted {
		text = "everything is halted, until: flynn resume"
	}
	return newOutput(ctx, cmd).success(map[string]bool{"halted": halted}, "%s", text)
}
