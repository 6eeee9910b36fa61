package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func accessCommand() *cli.Command {
	return &cli.Command{
		Name:  "access",
		Usage: "admit senders by pairing code, and list those admitted",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list pairing requests and paired senders", Action: listAccess,
				Description: "People that flynn.toml lists are not shown: flynn config show does. CONFIGURED is what it says of one who is paired:\n" +
					"it has the last word. IDENTITY is proved where the platform authenticates the sender; others are guests at most, except\n" +
					"accepted ones, whom the settings of the channel trust.",
			},
			{
				Name: "approve", Usage: "approve a pairing request", ArgsUsage: "CODE", Action: decideAccess(true),
				Description: "The code is the one that the stranger was given, and gives the role of access.pair_role. It is not asked who else\n" +
					"has seen it: make sure that it comes from the person you mean.",
			},
			{Name: "deny", Usage: "deny a pairing request and void its code", ArgsUsage: "CODE", Action: decideAccess(false)},
			{
				Name: "revoke", Usage: "revoke a pairing", ArgsUsage: "SENDER", Action: revokeAccess,
				Description: "An answer that is being made for the sender is stopped, and messages that wait are not answered. SENDER is as in the list.",
			},
			{Name: "role", Usage: "set the role of a paired sender to guest or member", ArgsUsage: "SENDER guest|member", Action: setAccessRole},
		},
	}
}

// terminalOwner decides at a terminal while no host runs.
const terminalOwner = "terminal:owner"

// withAccess puts something to the running host or, while none runs, to the store.
func withAccess(ctx context.Context, c *config.Config, path string, body, answer any, atRest func(gateway.Access) error) error {
	err := client.Ask(ctx, c, path, body, answer)
	if !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	access, release, err := admin.Pairings(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(atRest(access), release())
}

func listAccess(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	list := []gateway.AccessEntry{}
	err = withAccess(ctx, c, "/api/v1/access", nil, &list, func(a gateway.Access) (err error) {
		list, err = a.Access(ctx)
		return err
	})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{e.Sender, e.Name, e.State, e.Role, e.Identity, e.Configured, e.Code, localTime(e.Asked), localTime(e.Expires), e.By})
	}
	return o.table([]string{"SENDER", "NAME", "STATE", "ROLE", "IDENTITY", "CONFIGURED", "CODE", "ASKED", "EXPIRES", "BY"}, rows)
}

func decideAccess(approve bool) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		code, err := oneArgument(cmd)
		if err != nil {
			return err
		}
		c, err := loadConfig(ctx, cmd)
		if err != nil {
			return err
		}
		var e gateway.AccessEntry
		body := map[string]any{"code": code, "approve": approve}
		err = withAccess(ctx, c, "/api/v1/access/decide", body, &e, func(a gateway.Access) (err error) {
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
	if o.asJSON {
		return o.json(e)
	}
	switch {
	case e.Role == "":
		o.line("%s is not let in", cell(e.Sender))
	default:
		o.line("%s is let in as %s", cell(e.Sender), e.Role)
	}
	if e.Configured != "" {
		o.warn("flynn.toml has the last word about %s: %s", cell(e.Sender), e.Configured)
	}
	return nil
}

func revokeAccess(ctx context.Context, cmd *cli.Command) error {
	sender, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	answer := map[string]bool{"revoked": true}
	err = withAccess(ctx, c, "/api/v1/access/revoke", map[string]string{"sender": sender}, &answer, func(a gateway.Access) error {
		return a.RevokePairing(ctx, sender, terminalOwner)
	})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(answer)
	}
	o.done("%s is not let in any more", cell(sender))
	return nil
}

func setAccessRole(ctx context.Context, cmd *cli.Command) error {
	args := cmd.Args()
	sender, role := args.Get(0), args.Get(1)
	if args.Len() != 2 || sender == "" || role != "guest" && role != "member" {
		return usagef("needs a SENDER as flynn access list shows it, and guest or member; owners stand in flynn.toml")
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	answer := map[string]string{"role": role}
	body := map[string]string{"sender": sender, "role": role}
	err = withAccess(ctx, c, "/api/v1/access/role", body, &answer, func(a gateway.Access) error {
		return a.SetPairingRole(ctx, sender, role, terminalOwner)
	})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(answer)
	}
	o.done("%s is a %s now", cell(sender), role)
	return nil
}
