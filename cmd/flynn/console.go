package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func consoleCommand() *cli.Command {
	return &cli.Command{
		Name: "console", Category: groupPeople, Usage: "list who is signed in at the console, and sign people out",
		Description: "People sign in by a link that they get with the chat command /console. flynn open signs in the owner of this machine, which is no\n" +
			"sign-in of the list.",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the sign-ins, latest first", Action: withConfig(listSignIns),
				Description: "ROLE is empty for a person who is not admitted any more: such a sign-in is good for nothing.",
			},
			{Name: "end", Usage: "end a sign-in at once", ArgsUsage: "ID", Action: withConfig(endSignIn)},
		},
	}
}

func listSignIns(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	var list []gateway.SignIn
	if err := client.Ask(ctx, c, http.MethodGet, "/api/v1/sign-ins", nil, &list); err != nil {
		return err
	}
	header := []string{"ID", "SENDER", "ROLE", "SINCE", "USED"}
	return printListOr(newOutput(ctx, cmd), list, "nobody is signed in: people write /console to the bot in a private chat", header, func(s gateway.SignIn) []string {
		return []string{s.ID, string(s.Sender), s.Role, localTime(s.Began), localTime(s.Used)}
	})
}

func endSignIn(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	id := cmd.Args().First()
	if err := client.Ask(ctx, c, http.MethodDelete, "/api/v1/sign-ins/"+url.PathEscape(id), nil, nil); err != nil {
		return err
	}
	newOutput(ctx, cmd).done("%s is signed out", cell(id))
	return nil
}
