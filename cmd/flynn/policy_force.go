package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func listPoliciesCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the policies in force",
		Description: "Asks the running flynn. When none runs, it shows the configured policies and how they were left.",
		Action:      listPolicies,
	}
}

func policyHistoryCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show the history of modules, loaded and refused", ArgsUsage: "[NAME]",
		Flags:  []cli.Flag{&cli.IntFlag{Name: "limit", Usage: "only the latest `N`", Value: 100}},
		Action: showPolicyHistory,
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
		Action: rollbackPolicy,
	}
}

func listPolicies(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	var status gateway.Status
	err = client.Ask(ctx, c, "/api/v1/status", nil, &status)
	if errors.Is(err, client.ErrNotRunning) {
		status.Policies, err = admin.Policies(ctx, c)
	}
	if err != nil {
		return err
	}
	return showPolicies(newOutput(ctx, cmd), status.Policies)
}

func showPolicies(o *output, list []gateway.PolicyStatus) error {
	if o.asJSON {
		return o.json(list)
	}
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{
			p.Name, strings.Join(p.Kinds, ","), policyState(p), p.Version, short(p.File), localTime(p.Since), strconv.FormatInt(p.Decisions, 10),
			strconv.FormatInt(p.Failures, 10), p.Detail,
		})
	}
	return o.table([]string{"NAME", "KINDS", "STATE", "VERSION", "MODULE", "SINCE", "DECISIONS", "FAILURES", "ERROR"}, rows)
}

// short is the beginning of a digest, which --to takes.
func short(digest string) string { return digest[:min(12, len(digest))] }

func localTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

func showPolicyHistory(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	if cmd.Args().Len() > 1 || cmd.Int("limit") <= 0 {
		return usagef("needs at most one name, and a limit above 0")
	}
	name := cmd.Args().First()
	changes, err := admin.PolicyHistory(ctx, c, journal.ChangeFilter{Policy: name, Limit: cmd.Int("limit")})
	if err == nil && len(changes) == 0 {
		err = mustName(c, name)
	}
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		if changes == nil {
			changes = []journal.Change{}
		}
		return o.json(changes)
	}
	var rows [][]string
	for _, p := range changes {
		rows = append(rows, []string{localTime(p.At), p.Policy, p.Outcome, p.Version, short(p.File), short(p.NowFile), p.By, p.Reason})
	}
	return o.table([]string{"TIME", "POLICY", "OUTCOME", "VERSION", "MODULE", "IN FORCE", "BY", "REASON"}, rows)
}

// mustName refuses the name of a policy that the configuration does not have; none is all of them.
func mustName(c *config.Config, name string) error {
	if name == "" || slices.ContainsFunc(c.Policies, func(p config.Policy) bool { return p.Name == name }) {
		return nil
	}
	return fmt.Errorf("there is no policy %q: flynn policy list shows those that are configured", name)
}

func rollbackPolicy(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	r := gateway.Rollback{To: cmd.String("to"), Clear: cmd.Bool("clear")}
	if r.Clear && r.To != "" {
		return usagef("--clear goes back to nothing: leave --to out")
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	var now gateway.PolicyStatus
	err = client.Ask(ctx, c, "/api/v1/policies/"+url.PathEscape(name)+"/rollback", r, &now)
	if errors.Is(err, client.ErrNotRunning) {
		row, err := admin.RollbackPolicy(ctx, c, name, r)
		if err != nil {
			return err
		}
		now = gateway.PolicyStatus{Name: name, File: row.File, Pinned: row.File, Version: row.Version, State: "not running", OK: true}
		return showRollback(o, now, " from the next start on")
	}
	if err != nil {
		return err
	}
	return showRollback(o, now, "")
}

func showRollback(o *output, p gateway.PolicyStatus, when string) error {
	if o.asJSON {
		return o.json(p)
	}
	o.line("%s: module %s is in force%s", p.Name, cmp.Or(short(p.File), "of the file"), when)
	if p.Detail != "" {
		o.warn("%s", cell(p.Detail))
	}
	return nil
}
