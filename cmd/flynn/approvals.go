package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func approvalsCommand() *cli.Command {
	return &cli.Command{
		Name: "approvals", Usage: "answer requests for approval, and revoke grants",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list pending requests with everything they ask for", Action: listApprovals},
			{Name: "show", Usage: "show a pending request in full", ArgsUsage: "ID", Action: showApproval},
			{
				Name: "approve", Usage: "approve a call", ArgsUsage: "ID", Action: approveRequest,
				Description: "Without --scope the call alone is allowed. A session grant covers the same call again in its conversation, for a day " +
					"at most; an always grant covers it until its time is up. flynn approvals list shows what each would cover.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "scope", Value: "once", Usage: "`SCOPE`: once, session or always"},
					&cli.StringFlag{Name: "for", Usage: "how long an always grant lasts, such as 8h or 30d (default: 30d)"},
					&cli.StringFlag{Name: "pattern", Usage: "cover command lines that match `PATTERN`, in which * is one argument: 'grep -rn * docs'"},
				},
			},
			{Name: "deny", Usage: "deny a call", ArgsUsage: "ID", Action: denyRequest},
			{
				Name: "grants", Usage: "list grants", Action: listGrants,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "include those that have ended"}},
			},
			{Name: "revoke", Usage: "revoke a grant", ArgsUsage: "ID", Action: revokeGrant},
		},
	}
}

func auditCommand() *cli.Command {
	return &cli.Command{
		Name: "audit", Usage: "show when grants were made, used and ended",
		Commands: []*cli.Command{{
			Name: "list", Usage: "list the latest audit rows, oldest first", Action: listAudit,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "kind", Usage: "only rows of a `KIND`, such as grant_used or elevated"},
				&cli.StringFlag{Name: "subject", Usage: "only rows about a grant's `ID`, or a conversation"},
				&cli.StringFlag{Name: "since", Usage: "only rows of the last `TIME`, such as 8h or 30d"},
				&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most `N` rows"},
			},
		}},
	}
}

// askHere puts a question to the running host of the configuration.
func askHere(ctx context.Context, cmd *cli.Command, path string, body, answer any) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	return startHint(client.Ask(ctx, c, path, body, answer))
}

// startHint says how to start a host where none runs.
func startHint(err error) error {
	if errors.Is(err, client.ErrNotRunning) {
		return fmt.Errorf("%w: start it with: flynn serve", err)
	}
	return err
}

func listApprovals(ctx context.Context, cmd *cli.Command) error {
	list := []gateway.Approval{}
	if err := askHere(ctx, cmd, "/api/v1/approvals", nil, &list); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	for i, a := range list {
		if i > 0 {
			o.line("")
		}
		if err := printApproval(o, a); err != nil {
			return err
		}
	}
	return nil
}

func showApproval(ctx context.Context, cmd *cli.Command) error {
	id, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	list := []gateway.Approval{}
	if err := askHere(ctx, cmd, "/api/v1/approvals", nil, &list); err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a gateway.Approval) bool { return a.ID == id })
	if i < 0 {
		return fmt.Errorf("no request %q waits (run \"flynn approvals list\")", id)
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list[i])
	}
	return printApproval(o, list[i])
}

// printApproval prints the call first, as a person would type it, each line behind a bar, and then all else about a request.
func printApproval(o *output, a gateway.Approval) error {
	for _, line := range strings.Split(approval.Call(a.Args), "\n") {
		o.line("| " + line)
	}
	rows := [][]string{{"tool", a.Tool + ", where: " + a.Where}}
	if len(a.Unshown) > 0 {
		rows = append(rows, []string{"not shown", strings.Join(a.Unshown, "; ")})
	}
	rows = append(rows, [][]string{
		{"folder", a.Dir}, {"agent", a.Agent}, {"asked by", a.Requester},
		{"because", strings.Join(a.Reasons, "; ")}, {"until", a.Expires.Local().Format(time.DateTime)},
		{"session", offered(a.MaySession, a.SessionCovers, a.NotSession)},
	}...)
	if a.SessionShell != "" {
		rows = append(rows, []string{"session is", "as good as a shell: " + a.SessionShell})
	}
	rows = append(rows, []string{"always", offered(a.MayStanding, a.StandingCovers, a.NotStanding)})
	return o.table([]string{"REQUEST", a.ID}, rows)
}

func offered(may bool, covers, why string) string {
	if may {
		return "would allow " + covers
	}
	return "not possible: " + why
}

// decision is what the gateway takes.
type decision struct {
	Grant   bool   `json:"grant"`
	Scope   string `json:"scope,omitempty"`
	Span    string `json:"span,omitempty"`
	Pattern string `json:"pattern,omitempty"`
}

func approveRequest(ctx context.Context, cmd *cli.Command) error {
	scope, ok := map[string]consent.GrantScope{"once": "", "session": consent.GrantSession, "always": consent.GrantStanding}[cmd.String("scope")]
	if !ok {
		return usagef("--scope is %q; say once, session or always", cmd.String("scope"))
	}
	d := decision{Grant: true, Scope: string(scope), Pattern: cmd.String("pattern")}
	if text := cmd.String("for"); text != "" {
		span, ok := command.ReadSpan(text)
		if !ok {
			return usagef("--for is %q; write a time like 8h or 30d", text)
		}
		d.Span = span.String()
	}
	if scope == "" && (d.Span != "" || d.Pattern != "") || scope == consent.GrantSession && d.Span != "" {
		return usagef("--for needs --scope always, and --pattern needs --scope session or always")
	}
	return decide(ctx, cmd, d)
}

func denyRequest(ctx context.Context, cmd *cli.Command) error { return decide(ctx, cmd, decision{}) }

func decide(ctx context.Context, cmd *cli.Command, d decision) error {
	id, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	var answer map[string]any
	if err := askHere(ctx, cmd, "/api/v1/approvals/"+url.PathEscape(id), d, &answer); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(answer)
	}
	o.done("%s is %s", id, map[bool]string{true: "approved", false: "denied"}[d.Grant])
	return nil
}

// grantsOf asks for the grants.
func grantsOf(ctx context.Context, cmd *cli.Command, want func(gateway.Grant) bool) ([]gateway.Grant, error) {
	var all []gateway.Grant
	if err := askHere(ctx, cmd, "/api/v1/grants", nil, &all); err != nil {
		return nil, err
	}
	list := []gateway.Grant{}
	for _, g := range all {
		if want(g) {
			list = append(list, g)
		}
	}
	return list, nil
}

func listGrants(ctx context.Context, cmd *cli.Command) error {
	list, err := grantsOf(ctx, cmd, func(g gateway.Grant) bool { return g.Open || cmd.Bool("all") })
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	return grantTable(o, list)
}

func grantTable(o *output, list []gateway.Grant) error {
	var rows [][]string
	for _, g := range list {
		state := "until " + g.Expires.Local().Format(time.DateTime)
		if !g.Open {
			state = "ended"
		}
		rows = append(rows, []string{g.ID, string(g.Scope), state, strconv.FormatInt(g.Uses, 10), g.Granter, g.Covers})
	}
	return o.table([]string{"GRANT", "SCOPE", "STATE", "USES", "BY", "COVERS"}, rows)
}

func revokeGrant(ctx context.Context, cmd *cli.Command) error {
	id, err := oneArgument(cmd)
	if err != nil {
		return err
	}
	var answer map[string]any
	if err := askHere(ctx, cmd, "/api/v1/grants/"+url.PathEscape(id)+"/revoke", struct{}{}, &answer); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(answer)
	}
	o.done("%s is over", id)
	return nil
}

func listAudit(ctx context.Context, cmd *cli.Command) error {
	q := url.Values{"limit": {strconv.Itoa(cmd.Int("limit"))}}
	for _, name := range []string{"kind", "subject"} {
		if v := cmd.String(name); v != "" {
			q.Set(name, v)
		}
	}
	if text := cmd.String("since"); text != "" {
		span, ok := command.ReadSpan(text)
		if !ok {
			return usagef("--since is %q; write a time like 8h or 30d", text)
		}
		q.Set("since", time.Now().Add(-span).UTC().Format(time.RFC3339))
	}
	list := []consent.AuditRow{}
	if err := askHere(ctx, cmd, "/api/v1/audit?"+q.Encode(), nil, &list); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	var rows [][]string
	for _, r := range list {
		rows = append(rows, []string{r.At.Local().Format(time.DateTime), r.Kind, r.Subject, r.Actor, r.Agent, r.Tool, r.Detail})
	}
	return o.table([]string{"AT", "KIND", "SUBJECT", "BY", "AGENT", "TOOL", "DETAIL"}, rows)
}
