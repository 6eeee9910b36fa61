package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/gateway"
)

func webCommand() *cli.Command {
	return &cli.Command{
		Name:  "web",
		Usage: "print the address of the chat page, with the token that signs its owner in",
		Description: "The address gives the owner's rights: open it in your own browser and share it with nobody. The token comes from\n" +
			"[gateway] token_file; the page asks for it if the address has none.",
		Flags: gatewayFlags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			url, token, err := gatewayToken(ctx, cmd)
			if err != nil {
				return err
			}
			address := gateway.PageURL(url, token)
			return newOutput(ctx, cmd).result(map[string]string{"url": address}, "%s", address)
		},
	}
}
