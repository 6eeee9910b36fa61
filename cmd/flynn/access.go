package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/message"
)

func accessCommand() *cli.Command {
	return &cli.Command{
		Name: "access", Category: groupPeople,
		Usage: "admit senders by pairing code, and list those admitted",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list pairing requests and paired senders", Action: withConfig(listAccess),
				Description: "Senders listed in flynn.toml are not shown; flynn config show prints them. CONFIGURED is what flynn.toml says about a\n" +
					"paired sender, and overrides the pairing. IDENTITY is proved where the platform authenticates the sender; others are\n" +
					"guests at most, except accepted ones, which the settings of the channel trust.",
			},
			{
				Name: "approve", Usage: "approve a pairing request", ArgsUsage: "CODE", Action: withConfig(decideAccess(true)),
				Description: "CODE is the one that Flynn sent to the sender, who gets the role of access.pair_role. Flynn cannot know who else has\n" +
					"seen the code: make sure that it comes from the person you mean.",
			},
			{Name: "deny", Usage: "deny a pairing request and void its code", ArgsUsage: "CODE", Action: withConfig(decideAccess(false))},
			{
				Name: "revoke", Usage: "revoke a pairing", ArgsUsage: "SENDER", Action: withConfig(revokeAccess),
				Description: "A running answer to the sender is stopped, and waiting messages stay unanswered. SENDER is as flynn access list shows it.",
			},
			{Name: "role", Usage: "set the role of a paired sender to guest or member", ArgsUsage: "SENDER guest|member", Action: withConfig(setAccessRole)},
		},
	}
}

// terminalOwner is recorded as the one who decides at a terminal while no host runs.
const terminalOwner = "terminal:owner"

// withAccess asks the running host or, while none runs, has atRest do the same in the store.
func withAccess(ctx context.Context, c *config.Config, method, path string, body, answer any, atRest func(gateway.Access) error) error {
	err := client.Ask(ctx, c, method, path, body, answer)
	if !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	access, release, err := admin.Pairings(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(atRest(access), release())
}

func listAccess(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	var list []gateway.AccessEntry
	err := withAccess(ctx, c, http.MethodGet, "/api/v1/people", nil, &list, func(a gateway.Access) (err error) {
		list, err = a.Access(ctx)
		return err
	})
	if err != nil {
		return err
	}
	header := []string{"SENDER", "NAME", "STATE", "ROLE", "IDENTITY", "CONFIGURED", "CODE", "ASKED", "EXPIRES", "BY"}
	return printListOr(newOutput(ctx, cmd), list, "nobody has asked to pair: write to the bot over a channel with access = \"pair\"; flynn route test shows how a sender is treated", header, func(e gateway.AccessEntry) []string {
		return []string{string(e.Sender), e.Name, e.State, e.Role, e.Identity, e.Configured, e.Code, localTime(e.Asked), localTime(e.Expires), e.By}
	})
}

func decideAccess(approve bool) func(context.Context, *cli.Command, *config.Config) error {
	return func(ctx context.Context, cmd *cli.Command, c *config.Config) error {
		code := cmd.Args().First()
		var e gateway.AccessEntry
		body := map[string]any{"code": code, "approve": approve}
		err := withAccess(ctx, c, http.MethodPost, "/api/v1/people/decision", body, &e, func(a gateway.Access) (err error) {
			e, err = a.DecidePairing(ctx, code, approve, terminalOwner)
			return err
		})
		if err != nil {
			return err
		}
		return showDecision(newOutput(ctx, cmd), e)
	}
}

func showDecision(o *output, e gateway.AccessEntry) error {
	if !o.asJSON && e.Configured != "" {
		o.warn("flynn.toml overrides the pairing of %s: %s", cell(e.Sender), e.Configured)
	}
	if e.Role == "" {
		return o.result(e, "%s is not let in", cell(e.Sender))
	}
	return o.result(e, "%s is let in as %s", cell(e.Sender), e.Role)
}

func revokeAccess(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	sender, answer := cmd.Args().First(), map[string]bool{"revoked": true}
	err := withAccess(ctx, c, http.MethodDelete, "/api/v1/people/"+url.PathEscape(sender), nil, nil, func(a gateway.Access) error {
		return a.RevokePairing(ctx, message.SenderKey(sender), terminalOwner)
	})
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(answer, "%s is not let in any more", cell(sender))
}

func setAccessRole(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	sender, role := cmd.Args().Get(0), cmd.Args().Get(1)
	if role != "guest" && role != "member" {
		return usagef("needs a SENDER as flynn access list shows it, and guest or member; owners are set in flynn.toml")
	}
	answer := map[string]string{"role": role}
	err := withAccess(ctx, c, http.MethodPatch, "/api/v1/people/"+url.PathEscape(sender), answer, nil, func(a gateway.Access) error {
		return a.SetPairingRole(ctx, message.SenderKey(sender), role, terminalOwner)
	})
	if err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(answer, "%s is now a %s", cell(sender), role)
}
