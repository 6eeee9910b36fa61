package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
)

func agentCommand() *cli.Command {
	return &cli.Command{
		Name: "agent", Category: groupTalk,
		Usage: "list the agents",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list agents with their models, tools and sandboxes", Action: withConfig(listAgents)},
		},
	}
}

// agentRow is a line of flynn agent list.
type agentRow struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Default bool   `json:"default"` // answers where no route names another
	Model   string `json:"model,omitempty"`
	Tools   string `json:"tools,omitempty"`
	Sandbox string `json:"sandbox,omitempty"` // empty: the host
}

func listAgents(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	var rows []agentRow
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		row := agentRow{Name: name, Kind: cmp.Or(a.Kind, "chat"), Default: c.Routing.DefaultAgent == name, Tools: a.ToolProfile}
		if row.Kind != "cli" { // an agent CLI has a model and tools of its own
			row.Model = a.ModelTier + " (" + c.Models[a.ModelTier].Title() + ")"
		} else {
			row.Tools = ""
		}
		if a.Sandbox.Enabled {
			row.Sandbox = cmp.Or(a.Sandbox.Name, "default")
		}
		rows = append(rows, row)
	}
	return printList(newOutput(ctx, cmd), rows, []string{"NAME", "KIND", "DEFAULT", "MODEL", "TOOLS", "SANDBOX"}, func(r agentRow) []string {
		return []string{r.Name, r.Kind, map[bool]string{true: "yes"}[r.Default], r.Model, r.Tools, r.Sandbox}
	})
}
