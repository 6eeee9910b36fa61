package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func previewCommand(name cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "preview", Usage: "show a port of a program in a session's sandbox in your browser", ArgsUsage: "[SESSION [PORT]]",
		Description: "Prints a link to what the program serves on 127.0.0.1 inside. The link is good once, for ten minutes; the preview ends with its time,\n" +
			"its sandbox, the kill switch and the host. Nothing is opened to the network.\n" +
			"Without PORT it lists what programs listen on, and without SESSION the open previews too. SESSION is as flynn sandbox list shows it.",
		Flags: []cli.Flag{
			name, &cli.DurationFlag{Name: "for", Usage: "how long it stays open, at most 24h", Value: time.Hour, Validator: previewTime},
			&cli.StringFlag{Name: "close", Usage: "close the preview `ID`"},
		},
		Action: withConfig(preview),
	}
}

func previewTime(d time.Duration) error {
	if d < time.Minute || d > 24*time.Hour {
		return errors.New("must be from 1m to 24h")
	}
	return nil
}

func preview(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	session, port, out := cmd.Args().Get(0), cmd.Args().Get(1), newOutput(ctx, cmd)
	if id := cmd.String("close"); id != "" {
		if err := client.Ask(ctx, c, http.MethodDelete, "/api/v1/previews/"+url.PathEscape(id), nil, nil); err != nil {
			return err
		}
		out.done("preview %s is closed", cell(id))
		return nil
	}
	if port != "" {
		return openPreview(ctx, cmd, c, out)
	}
	if session == "" && !out.asJSON {
		if err := listPreviews(ctx, c, out); err != nil {
			return err
		}
	}
	return listPorts(ctx, c, out, session)
}

func listPreviews(ctx context.Context, c *config.Config, out *output) error {
	var list []gateway.Preview
	err := client.Get(ctx, c, "/api/v1/previews", &list)
	if err != nil || len(list) == 0 {
		return err
	}
	header := []string{"ID", "SESSION", "PORT", "BY", "UNTIL", "ADDRESS"}
	return printListOr(out, list, "", header, func(p gateway.Preview) []string {
		return []string{p.ID, string(p.Session), strconv.Itoa(p.Port), string(p.By), localTime(p.Expires), p.Address}
	})
}

func listPorts(ctx context.Context, c *config.Config, out *output, session string) error {
	var list []gateway.SandboxPorts
	if err := client.Get(ctx, c, "/api/v1/ports", &list); err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(p gateway.SandboxPorts) bool { return session != "" && string(p.Session) != session })
	const hint = "no program runs in a sandbox: ask the agent to start the server in the background, then flynn sandbox preview SESSION PORT"
	return printListOr(out, list, hint, []string{"SESSION", "SANDBOX", "PORTS"}, func(p gateway.SandboxPorts) []string {
		ports := ""
		for _, port := range p.Ports {
			ports += strconv.Itoa(port) + " "
		}
		if p.More {
			ports += "..."
		}
		return []string{string(p.Session), p.Name, cmp.Or(p.Refused, ports, "none")}
	})
}

func openPreview(ctx context.Context, cmd *cli.Command, c *config.Config, out *output) error {
	port, err := strconv.ParseUint(cmd.Args().Get(1), 10, 16)
	if err != nil || port == 0 {
		return usagef("%q is no port: write a number from 1 to 65535", cmd.Args().Get(1))
	}
	box, err := liveSandbox(ctx, cmd, c)
	if err != nil {
		return err
	}
	var link gateway.PreviewLink
	n := gateway.NewPreview{Sandbox: box, Port: int(port), Minutes: int(cmd.Duration("for").Minutes())}
	if err := client.Ask(ctx, c, http.MethodPost, "/api/v1/previews", n, &link); err != nil {
		return err
	}
	where := "one browser"
	if u, err := url.Parse(link.Link); err == nil && strings.HasSuffix(u.Hostname(), ".localhost") {
		where = "one browser on this machine"
	}
	out.done("The link is for %s, good once and for ten minutes; the preview is open until %s.", where, localTime(link.Expires))
	return out.result(link, "%s", link.Link)
}

// liveSandbox returns the id of the session's live sandbox.
func liveSandbox(ctx context.Context, cmd *cli.Command, c *config.Config) (string, error) {
	var live []gateway.LiveSandbox
	if err := client.Get(ctx, c, "/api/v1/sandboxes", &live); err != nil {
		return "", err
	}
	session := cmd.Args().First()
	live = slices.DeleteFunc(live, func(l gateway.LiveSandbox) bool {
		return string(l.Session) != session || cmd.IsSet("sandbox") && l.Name != cmd.String("sandbox")
	})
	switch len(live) {
	case 0:
		return "", fmt.Errorf("session %s has no live sandbox: flynn sandbox list shows those that have", cell(session))
	case 1:
		return live[0].ID, nil
	}
	return "", fmt.Errorf("session %s has %d live sandboxes: choose one with --sandbox", cell(session), len(live))
}
