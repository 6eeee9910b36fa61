package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func stopCommand() *cli.Command {
	return &cli.Command{
		Name:  "stop",
		Usage: "throw the kill switch of the running flynn: no agent does anything until flynn resume",
		Description: "Answers that are being made end between two steps; programs that they run are ended at once. What is sent meanwhile is\n" +
			"kept and answered afterwards. A restart changes nothing about it. To end flynn itself, interrupt flynn serve.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "reason", Usage: "`WHY`, for those who ask with /status"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return haltRunning(ctx, cmd, "/api/v1/halt", map[string]string{"reason": cmd.String("reason")})
		},
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name:  "resume",
		Usage: "let agents work again after flynn stop",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return haltRunning(ctx, cmd, "/api/v1/resume", map[string]string{})
		},
	}
}

func haltRunning(ctx context.Context, cmd *cli.Command, path string, body map[string]string) error {
	g, err := config.LoadGateway(configPath(ctx, cmd), getenvOf(ctx)) // an error elsewhere in the file must not keep the switch from anybody
	if err != nil {
		return err
	}
	var answer struct {
		Halted bool `json:"halted"`
	}
	if err := client.Ask(ctx, &config.Config{Gateway: g}, path, body, &answer); err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	switch {
	case out.asJSON:
		return out.json(answer)
	case answer.Halted:
		out.done("everything is halted, until: flynn resume")
	default:
		out.done("agents work again")
	}
	return nil
}
