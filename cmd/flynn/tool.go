package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func toolCommand() *cli.Command {
	return &cli.Command{
		Name: "tool", Category: groupDevelop, Usage: "show the tools of plugins, and dry-run calls",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the tools of plugins in the running flynn", Action: listTools,
				Description: "EFFECT and APPROVE come from flynn.toml and are enforced. CLAIMS is what the tool says about itself, and is ignored.",
			},
			{
				Name: "explain", Usage: "show a tool, or dry-run a call of it", ArgsUsage: "NAME", Action: explainTool, Flags: dryRunFlags(),
				Description: "For a tool of a plugin it shows what the provider says about it, unchecked.\n" +
					"With --agent it asks the running flynn what it would do with a call of any tool: each restriction with its reason, whether a person would\n" +
					"be asked or which grant makes that unnecessary, and where it would run. Nothing runs, nobody is asked, no grant is used.",
			},
		},
	}
}

// providers asks the running host for its providers of tools.
func providers(ctx context.Context, cmd *cli.Command) ([]gateway.ToolsStatus, error) {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return nil, err
	}
	var s gateway.Status
	if err = client.Get(ctx, c, "/api/v1/status", &s); errors.Is(err, client.ErrNotRunning) {
		err = fmt.Errorf("%w: only a running flynn knows the tools of plugins; start it with: flynn serve", err)
	}
	return append([]gateway.ToolsStatus{}, s.Tools...), err
}

func listTools(ctx context.Context, cmd *cli.Command) error {
	list, err := providers(ctx, cmd)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	var rows [][]string
	for _, p := range list {
		if !p.OK {
			o.warn("%s is %s: %s", cell(p.Name), cell(p.State), cell(p.Detail))
		}
		for _, problem := range p.Problems {
			o.warn("%s: %s", cell(p.Name), cell(problem))
		}
		for _, t := range p.Tools {
			rows = append(rows, []string{t.Name, p.Plugin, t.Effect, t.Approve, strings.Join(t.Agents, ","), t.Claims, short(t.Digest), localTime(t.Changed)})
		}
	}
	if len(rows) == 0 {
		o.done("no plugin offers tools: install one, such as mcp, and add [tools.NAME] to the configuration")
	}
	return o.table([]string{"TOOL", "PLUGIN", "EFFECT", "APPROVE", "AGENTS", "CLAIMS", "DIGEST", "CHANGED"}, rows)
}

func explainTool(ctx context.Context, cmd *cli.Command) error {
	name := cmd.Args().First()
	for _, f := range dryRunFlags() {
		if cmd.IsSet(f.Names()[0]) {
			return dryRunCall(ctx, cmd, name)
		}
	}
	list, err := providers(ctx, cmd)
	if err != nil {
		return err
	}
	grants, err := grantsOf(ctx, cmd, func(g gateway.Grant) bool { return g.Open && g.Tool == name })
	if err != nil {
		return err
	}
	for _, p := range list {
		i := slices.IndexFunc(p.Tools, func(t gateway.ToolStatus) bool { return t.Name == name })
		if i < 0 {
			continue
		}
		o := newOutput(ctx, cmd)
		if o.asJSON {
			return o.json(p.Tools[i])
		}
		if err := printTool(o, p, p.Tools[i]); err != nil {
			return err
		}
		return printToolGrants(o, grants)
	}
	if len(grants) > 0 { // of one of Flynn's own tools
		o := newOutput(ctx, cmd)
		if o.asJSON {
			return o.json(grants)
		}
		return printToolGrants(o, grants)
	}
	return fmt.Errorf("no provider offers a tool %q now: flynn tool list shows all", name)
}

// printToolGrants prints the grants by which calls of a tool run without asking a person.
func printToolGrants(o *output, grants []gateway.Grant) error {
	if len(grants) == 0 {
		return nil
	}
	o.line("\nWhat is allowed without asking again:")
	return printGrants(o, grants)
}

func printTool(o *output, p gateway.ToolsStatus, t gateway.ToolStatus) error {
	rows := [][]string{
		{"provider", fmt.Sprintf("%s (plugin %s, %s)", p.Name, p.Plugin, p.State)},
		{"its own name", t.Own},
		{"effect", t.Effect + ", by flynn.toml"},
		{"approve", t.Approve},
		{"profiles", strings.Join(t.Profiles, ", ")},
		{"agents", strings.Join(t.Agents, ", ")},
		{"claims", t.Claims + ", by its own words"},
		{"digest", t.Digest},
	}
	if t.Was != "" {
		rows = append(rows, []string{"changed", localTime(t.Changed)}, []string{"was", t.Was})
	}
	if err := o.table([]string{"TOOL", t.Name}, rows); err != nil {
		return err
	}
	o.line("\nIt says:")
	for line := range strings.Lines(t.Says) {
		o.line("  %s", cell(strings.TrimRight(line, "\n")))
	}
	return nil
}
