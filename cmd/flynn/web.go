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
		Description: "The address gives the owner's rights: open it in your own browser and pass it on to nobody. The token comes from\n" +
			"[gateway] token_file; the page asks for it where an address has none.",
		Flags: gatewayFlags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			url, tokenFile, err := gatewayAddress(ctx, cmd)
			if err != nil {
				return err
			}
			token, err := gateway.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			address := gateway.PageURL(url, token)
			if o := newOutput(ctx, cmd); o.asJSON {
				return o.json(map[string]string{"url": address})
			} else {
				o.line("%s", address)
			}
			return nil
		},
	}
}
