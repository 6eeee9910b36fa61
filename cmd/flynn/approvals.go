package main

import (
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

	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func approvalsCommand() *cli.Command {
	return &cli.Command{
		Name: "approvals", Category: groupTalk, Usage: "answer requests for approval, and revoke grants",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list pending requests with everything they ask for", Action: listApprovals},
			{Name: "show", Usage: "show a pending request in full", ArgsUsage: "ID", Action: showApproval},
			{
				Name: "approve", Usage: "approve a call", ArgsUsage: "ID", Action: approveRequest,
				Description: "Without --scope only this call is allowed. A session grant covers the same call again in its conversation, for a day\n" +
					"at most; an always grant covers it until it expires. flynn approvals list shows what each would cover.",
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
		Name: "audit", Category: groupOperate, Usage: "show when grants were made, used and ended",
		Commands: []*cli.Command{{
			Name: "list", Usage: "list the latest audit rows, oldest first", Action: listAudit,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "kind", Usage: "only rows of a `KIND`, such as grant_used or elevated"},
				&cli.StringFlag{Name: "subject", Usage: "only rows about a grant's `ID`, or a conversation"},
				sinceFlag("only rows after `TIME`"),
				&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most `N` rows"},
			},
		}},
	}
}

// askHere asks the running host of the configuration.
func askHere(ctx context.Context, cmd *cli.Command, method, path string, body, answer any) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	return startHint(client.Ask(ctx, c, method, path, body, answer))
}

// startHint adds to the error of a host that is not running how to start it.
func startHint(err error) error {
	if errors.Is(err, client.ErrNotRunning) {
		return fmt.Errorf("%w: start it with: flynn serve", err)
	}
	return err
}

func listApprovals(ctx context.Context, cmd *cli.Command) error {
	list := []gateway.Approval{}
	if err := askHere(ctx, cmd, http.MethodGet, "/api/v1/approvals", nil, &list); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	if len(list) == 0 {
		o.done("no request waits: a tool call that needs a person appears here, in the chat and on the page")
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
	id, list := cmd.Args().First(), []gateway.Approval{}
	if err := askHere(ctx, cmd, http.MethodGet, "/api/v1/approvals", nil, &list); err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a gateway.Approval) bool { return a.ID == id })
	if i < 0 {
		return fmt.Errorf("no pending request %q (run \"flynn approvals list\")", id)
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list[i])
	}
	return printApproval(o, list[i])
}

// printApproval prints the call as a person would type it, each line behind a bar, and then everything else about the request.
func printApproval(o *output, a gateway.Approval) error {
	for _, line := range strings.Split(approval.Call(a.Args), "\n") {
		o.line("| " + line)
	}
	rows := [][]string{{"tool", a.Tool + ", where: " + a.Where}}
	if len(a.Unshown) > 0 {
		rows = append(rows, []string{"not shown", strings.Join(a.Unshown, "; ")})
	}
	rows = append(rows, [][]string{
		{"folder", a.Dir}, {"agent", a.Agent}, {"asked by", string(a.Requester)},
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

// decision is the body of an answer to a request for approval.
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
	id := cmd.Args().First()
	if err := askHere(ctx, cmd, http.MethodPost, "/api/v1/approvals/"+url.PathEscape(id)+"/decision", d, nil); err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(map[string]any{"granted": d.Grant, "scope": d.Scope}, "%s is %s", id, map[bool]string{true: "approved", false: "denied"}[d.Grant])
}

// grantsOf asks for the grants, and keeps those for which keep is true.
func grantsOf(ctx context.Context, cmd *cli.Command, keep func(gateway.Grant) bool) ([]gateway.Grant, error) {
	var all []gateway.Grant
	err := askHere(ctx, cmd, http.MethodGet, "/api/v1/grants", nil, &all)
	return slices.DeleteFunc(all, func(g gateway.Grant) bool { return !keep(g) }), err
}

func listGrants(ctx context.Context, cmd *cli.Command) error {
	list, err := grantsOf(ctx, cmd, func(g gateway.Grant) bool { return g.Open || cmd.Bool("all") })
	if err != nil {
		return err
	}
	return printGrants(newOutput(ctx, cmd), list)
}

func printGrants(o *output, list []gateway.Grant) error {
	return printListOr(o, list, "no grants in force: flynn approvals approve ID --scope session|standing makes one, --all lists those that have ended", []string{"GRANT", "SCOPE", "STATE", "USES", "BY", "COVERS"}, func(g gateway.Grant) []string {
		state := "ended"
		if g.Open {
			state = "until " + localTime(g.Expires)
		}
		return []string{g.ID, string(g.Scope), state, number(g.Uses), g.Granter, g.Covers}
	})
}

func revokeGrant(ctx context.Context, cmd *cli.Command) error {
	id := cmd.Args().First()
	if err := askHere(ctx, cmd, http.MethodDelete, "/api/v1/grants/"+url.PathEscape(id), nil, nil); err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(map[string]bool{"revoked": true}, "%s is revoked", id)
}

// auditRows asks for pages until there are as many rows as wanted, and returns the latest of them, oldest first.
func auditRows(ctx context.Context, cmd *cli.Command, q url.Values, wanted int) ([]consent.AuditRow, error) {
	var list []consent.AuditRow
	for {
		q.Set("limit", strconv.Itoa(min(500, wanted-len(list))))
		var page gateway.Page[consent.AuditRow]
		if err := askHere(ctx, cmd, http.MethodGet, "/api/v1/audit?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		list = append(page.Items, list...)
		if page.Next == "" || len(list) >= wanted {
			return list, nil
		}
		q.Set("cursor", page.Next)
	}
}

func listAudit(ctx context.Context, cmd *cli.Command) error {
	q := url.Values{}
	for _, name := range []string{"kind", "subject"} {
		if v := cmd.String(name); v != "" {
			q.Set(name, v)
		}
	}
	since, err := sinceOf(cmd)
	if err != nil {
		return err
	}
	if !since.IsZero() {
		q.Set("since", since.UTC().Format(time.RFC3339))
	}
	list, err := auditRows(ctx, cmd, q, cmd.Int("limit"))
	if err != nil {
		return err
	}
	return printListOr(newOutput(ctx, cmd), list, "no rows: approvals, grants and elevated mode are recorded here once a tool call has asked for one", []string{"AT", "KIND", "SUBJECT", "BY", "AGENT", "TOOL", "DETAIL"}, func(r consent.AuditRow) []string {
		return []string{localTime(r.At), r.Kind, r.Subject, r.Actor, r.Agent, r.Tool, r.Detail}
	})
}
