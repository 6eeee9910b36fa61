package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func listPoliciesCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the policies in force, and those that come with flynn",
		Description: "Asks the running flynn. If none runs, it shows the configured policies in their last known state.",
		Action:      withConfig(listPolicies),
	}
}

func policyHistoryCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show the history of modules, loaded and refused", ArgsUsage: "[NAME]",
		Flags:  []cli.Flag{&cli.IntFlag{Name: "limit", Usage: "only the latest `N`", Value: 100}},
		Action: withConfig(showPolicyHistory),
	}
}

func rollbackPolicyCommand() *cli.Command {
	return &cli.Command{
		Name: "rollback", Usage: "roll a policy back to an older module", ArgsUsage: "NAME",
		Description: "The module comes from the archive and stays in force, over restarts too, until the policy's file changes or the\n" +
			"roll-back is cleared. When no flynn runs, it takes effect at the next start.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the module whose SHA-256 begins with `DIGEST` (default: the one before the current)"},
			&cli.BoolFlag{Name: "clear", Usage: "stop overriding the policy file, also for a policy that was disabled"},
		},
		Action: withConfig(rollbackPolicy),
	}
}

func listPolicies(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	status, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/status", nil, func() (s gateway.Status, err error) {
		s.Policies, err = admin.Policies(ctx, c)
		return s, err
	})
	if err != nil {
		return err
	}
	unused, err := configured.Unused(c)
	if err != nil {
		return err
	}
	list := []listedPolicy{}
	for _, p := range status.Policies {
		list = append(list, listedPolicy{PolicyStatus: p})
	}
	for _, a := range unused {
		list = append(list, listedPolicy{gateway.PolicyStatus{Name: a.Name, Version: a.Version, Kinds: a.Kinds, Detail: a.Source}, true})
	}
	header := []string{"NAME", "KINDS", "STATE", "VERSION", "MODULE", "SINCE", "DECISIONS", "FAILURES", "DETAIL"}
	return printListOr(newOutput(ctx, cmd), list, "no policies: write one with flynn policy dev new DIR, and add it as [[policies]] to "+c.Path, header, func(p listedPolicy) []string {
		if p.Available {
			return []string{p.Name, strings.Join(p.Kinds, ","), "not used", p.Version, "", "", "", "", p.Detail}
		}
		return []string{
			p.Name, strings.Join(p.Kinds, ","), policyState(p.PolicyStatus), p.Version, short(p.File), localTime(p.Since), number(p.Decisions), number(p.Failures), p.Detail,
		}
	})
}

// listedPolicy is one policy in the JSON of flynn policy list.
type listedPolicy struct {
	gateway.PolicyStatus
	// Available policies come with flynn and are not used; Detail is where they come from.
	Available bool `json:"available,omitempty"`
}

// short abbreviates a digest; --to accepts it.
func short(digest string) string { return digest[:min(12, len(digest))] }

func showPolicyHistory(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	if cmd.Int("limit") <= 0 {
		return usagef("--limit: must be a number above 0")
	}
	name := cmd.Args().First()
	limit := cmd.Int("limit")
	changes, err := pagesOrRead(ctx, c, "/api/v1/policy-changes", url.Values{"policy": {name}}, limit, func() ([]journal.Change, error) {
		changes, err := admin.PolicyHistory(ctx, c, journal.ChangeFilter{Policy: name, Limit: limit})
		slices.Reverse(changes)
		return changes, err
	})
	slices.Reverse(changes) // lists begin with the latest
	if err == nil && len(changes) == 0 {
		err = mustName(c, name)
	}
	if err != nil {
		return err
	}
	header := []string{"TIME", "POLICY", "OUTCOME", "VERSION", "MODULE", "IN FORCE", "BY", "REASON"}
	return printListOr(newOutput(ctx, cmd), changes, "no changes yet: the first start with a policy is the first", header, func(p journal.Change) []string {
		return []string{localTime(p.At), p.Policy, p.Outcome, p.Version, short(p.File), short(p.NowFile), p.By, p.Reason}
	})
}

// mustName returns the error for the name of a policy that the configuration does not have. The empty name stands for all.
func mustName(c *config.Config, name string) error {
	if name == "" || slices.ContainsFunc(c.Policies, func(p config.Policy) bool { return p.Name == name }) {
		return nil
	}
	return fmt.Errorf("there is no policy %q: flynn policy list shows those that are configured", name)
}

func rollbackPolicy(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	name, r := cmd.Args().First(), gateway.Rollback{To: cmd.String("to"), Clear: cmd.Bool("clear")}
	if r.Clear && r.To != "" {
		return usagef("--clear and --to exclude each other")
	}
	when := ""
	now, err := askOrRead(ctx, c, http.MethodPost, "/api/v1/policies/"+url.PathEscape(name)+"/rollback", r, func() (gateway.PolicyStatus, error) {
		row, err := admin.RollbackPolicy(ctx, c, name, r)
		when = " from the next start on"
		return gateway.PolicyStatus{Name: name, File: row.File, Pinned: row.File, Version: row.Version, State: "not running", OK: true}, err
	})
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if !o.asJSON && now.Detail != "" {
		o.warn("%s", cell(now.Detail))
	}
	return o.result(now, "%s: module %s is in force%s", now.Name, cmp.Or(short(now.File), "of the file"), when)
}
