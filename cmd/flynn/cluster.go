package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func clusterCommand() *cli.Command {
	return &cli.Command{
		Name: "cluster", Category: groupOperate,
		Usage: "show and manage the hosts that share a store",
		Commands: []*cli.Command{
			{
				Name: "status", Usage: "list the hosts that share the store, what each works on, and the last takeovers",
				Action: onCluster(clusterStatus),
			},
			{
				Name: "drain", Usage: "take the work of a host away, and leave it running", ArgsUsage: "NAME",
				Description: "The host gets no new turns, channels and tasks. Turns that it has begun go on for up to two minutes, and are then continued by\n" +
					"another host. This lasts until it is undone, also over a restart of the host. Any host can be asked for it.",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "undo", Usage: "let the host get work again"}},
				Action: onCluster(drainHost),
			},
			{
				Name: "remove", Usage: "forget a host that is dead for good", ArgsUsage: "NAME",
				Description: "Its work is free for the others in any case; this takes it off the list. A host that is alive is refused, and one that is started\n" +
					"again under the name is a new one.",
				Action: onCluster(removeHost),
			},
			{
				Name: "accept", Usage: "make the configuration, policies and plugins of this host those that all hosts agree on",
				Description: "The other hosts take them. One that cannot gets no work until it has the same, and flynn status on it says why. A change at one host\n" +
					"reaches all without this; it is for hosts that differ already.",
				Action: onCluster(acceptConfiguration),
			},
		},
	}
}

// onCluster runs an action that asks the running host. An error elsewhere in the file does not matter.
func onCluster(action func(ctx context.Context, cmd *cli.Command, c *config.Config, out *output) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		g, err := config.LoadGateway(configPath(ctx, cmd), getenvOf(ctx))
		if err != nil {
			return err
		}
		return startHint(action(ctx, cmd, &config.Config{Gateway: g}, newOutput(ctx, cmd)))
	}
}

func clusterStatus(ctx context.Context, _ *cli.Command, c *config.Config, out *output) error {
	var s gateway.ClusterStatus
	if err := client.Get(ctx, c, "/api/v1/cluster", &s); err != nil {
		return err
	}
	switch {
	case out.asJSON:
		return out.json(s)
	case !s.Shared:
		out.line("This host shares its store with nobody.")
		return nil
	}
	var rows [][]string
	for _, h := range s.Hosts {
		rows = append(rows, []string{
			cell(h.Name) + map[bool]string{true: " (this)"}[h.Name == s.This], hostState(h), cell(h.Address), cell(h.Version),
			strconv.Itoa(h.Conversations), strconv.Itoa(h.Channels), strconv.Itoa(h.Tasks),
		})
	}
	if err := out.table([]string{"HOST", "STATE", "ADDRESS", "VERSION", "CONVERSATIONS", "CHANNELS", "TASKS"}, rows); err != nil {
		return err
	}
	for _, h := range s.Hosts {
		if h.Alive && h.Idle == "differs" {
			out.line("%s gets no work: its configuration, policies or plugins differ. Give it those of the others, or run flynn cluster accept on it.", cell(h.Name))
		}
		if h.Reached == "no" {
			out.line("%s does not answer this host at %s: %s. See its listen and advertise of [cluster], and the firewall between.", cell(h.Name), cell(h.Peer), cell(h.Unreached))
		}
	}
	if len(s.Takeovers) == 0 {
		return nil
	}
	out.line("")
	out.line("Last takeovers:")
	for _, t := range s.Takeovers {
		out.line("  %s  %s took %d from %s", localTime(t.Last), cell(t.Host), t.Keys, cell(t.From))
	}
	return nil
}

// hostState is the state of a host in words.
func hostState(h gateway.ClusterHost) string {
	word := "dead"
	if h.Alive {
		word = "alive"
	}
	if !h.Since.IsZero() {
		word += " since " + h.Since.Local().Format(time.DateTime)
	}
	if h.Idle != "" {
		word += ", " + h.Idle
	} else if h.Alive && h.Differs {
		word += ", differs from this one"
	}
	if h.Reached != "" {
		word += map[string]string{"yes": ", reached", "no": ", not reached"}[h.Reached]
	}
	return word
}

// hostPath is the path of the host that a command names.
func hostPath(name string) string { return "/api/v1/cluster/hosts/" + url.PathEscape(name) }

func drainHost(ctx context.Context, cmd *cli.Command, c *config.Config, out *output) error {
	name := cmd.Args().First()
	method, text := http.MethodPut, "host %s gets no work, until: flynn cluster drain --undo %[1]s"
	if cmd.Bool("undo") {
		method, text = http.MethodDelete, "host %s gets work again"
	}
	if err := client.Ask(ctx, c, method, hostPath(name)+"/drain", nil, nil); err != nil {
		return err
	}
	return out.success(map[string]any{"host": name, "drained": method == http.MethodPut}, text, cell(name))
}

func removeHost(ctx context.Context, cmd *cli.Command, c *config.Config, out *output) error {
	name := cmd.Args().First()
	if err := client.Ask(ctx, c, http.MethodDelete, hostPath(name), nil, nil); err != nil {
		return err
	}
	return out.success(map[string]any{"removed": name}, "host %s is forgotten", cell(name))
}

func acceptConfiguration(ctx context.Context, _ *cli.Command, c *config.Config, out *output) error {
	if err := client.Ask(ctx, c, http.MethodPost, "/api/v1/cluster/configuration", nil, nil); err != nil {
		return err
	}
	return out.success(map[string]any{"accepted": true}, "%s", "what this host runs with is what all agree on; the others take it, and one that cannot gets no work")
}
