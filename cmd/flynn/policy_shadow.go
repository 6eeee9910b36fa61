package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func shadowPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "shadow", Usage: "show what shadow policies would have changed, or make a policy a shadow", ArgsUsage: "[NAME] [on|off]", Action: shadowPolicies,
		Description: "Policies with shadow = true decide on live traffic without effect. The decisions that they would have changed are kept for a\n" +
			"month, and can be read whether a host runs or not. Each module of a policy has a table of its own, the latest first.\n" +
			"With on or off, it edits flynn.toml: a shadow decides without effect, and any other policy with effect.",
		Flags: []cli.Flag{
			sinceFlag("only decisions after `TIME` (those that did not change are counted by day)"),
			&cli.IntFlag{Name: "examples", Usage: "show `N` decisions of each group", Value: 3},
			dryRunFlag(),
		},
	}
}

func shadowPolicies(ctx context.Context, cmd *cli.Command) error {
	name, on := cmd.Args().First(), cmd.Args().Get(1)
	switch {
	case on == "":
		return withConfig(showShadows)(ctx, cmd)
	case on != "on" && on != "off":
		return usagef("%q is neither on nor off", on)
	}
	f, c, err := loadForEdit(ctx, cmd)
	if err != nil {
		return err
	}
	if err := mustName(c, name); err != nil {
		return err
	}
	if err := configured.SetShadow(f, c, name, on == "on"); err != nil {
		return err
	}
	does := map[string]string{"on": "decides without effect", "off": "decides with effect"}[on]
	return saveConfig(ctx, cmd, f, fmt.Sprintf("Policy %s %s.", name, does))
}

func showShadows(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	since, err := sinceOf(cmd)
	if err != nil {
		return err
	}
	f := journal.ShadowFilter{Policy: cmd.Args().First(), Since: since}
	q := sinceQuery(since)
	q.Set("policy", f.Policy)
	q.Set("examples", strconv.Itoa(max(0, cmd.Int("examples"))))
	reports, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/shadow-reports?"+q.Encode(), nil, func() ([]shadowlog.Report, error) {
		return admin.ShadowReports(ctx, c, f, examplesOf(cmd))
	})
	if err == nil && len(reports) == 0 {
		err = mustName(c, cmd.Args().First())
	}
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(reports)
	}
	if len(reports) == 0 {
		o.done("nothing was compared: set shadow = true in a [[policies]] table to let a policy decide without effect")
	}
	for i := range reports {
		r := &reports[i]
		if i > 0 {
			o.line("")
		}
		against := "the whole chain"
		if r.Against != "" {
			against = "policy " + cell(r.Against)
		}
		o.line("module %s, compared with %s", short(r.File), against)
		if err := printComparison(o, &r.Report); err != nil {
			return err
		}
	}
	return nil
}

// policyState returns a policy's state, with marks for shadow and stateful policies.
func policyState(p gateway.PolicyStatus) string {
	state := p.State
	if p.Shadow {
		state += ", shadow"
	}
	if p.Stateful > 0 {
		state += ", stateful"
	}
	return state
}
