package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Category: groupOperate,
		Usage: "show in one screen how the running flynn does: agents, channels, models, sandbox, queue, budgets, last errors",
		Description: "The exit code is 0 if flynn runs, whatever the state of its parts, and 1 if none answers. flynn config check reports whether\n" +
			"flynn would start, flynn doctor what is wrong or weak.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "show it again every two seconds, until interrupted"},
		},
		Action: watchStatus,
	}
}

// state is the JSON of flynn status.
type state struct {
	gateway.Status
	Approvals []gateway.Approval `json:"approvals"`
}

// watchPoll is the time between two looks of flynn status --watch.
const watchPoll = 2 * time.Second

// watchStatus shows the status once, or again and again. On a terminal each look replaces the one before; elsewhere they follow each other.
func watchStatus(ctx context.Context, cmd *cli.Command) error {
	if !cmd.Bool("watch") {
		return showStatus(ctx, cmd)
	}
	for {
		if isTerminal(cmd.Root().Writer) {
			fmt.Fprint(cmd.Root().Writer, "\x1b[H\x1b[2J")
		}
		if err := showStatus(ctx, cmd); err != nil && ctx.Err() == nil {
			newOutput(ctx, cmd).fail(err) // it may start again
		}
		select {
		case <-time.After(watchPoll):
		case <-ctx.Done():
			return nil
		}
	}
}

func showStatus(ctx context.Context, cmd *cli.Command) error {
	g, err := config.LoadGateway(configPath(ctx, cmd), getenvOf(ctx)) // an error elsewhere in the file does not matter here
	if err != nil {
		return err
	}
	c, s := &config.Config{Gateway: g}, state{Approvals: []gateway.Approval{}}
	if err := client.Get(ctx, c, "/api/v1/status", &s.Status); err != nil {
		return startHint(err)
	}
	if err := client.Get(ctx, c, "/api/v1/approvals", &s.Approvals); err != nil {
		return startHint(err)
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(s)
	}
	o.line("Flynn %s runs since %s with configuration %d.", cell(s.Version), localTime(s.Started), s.Generation)
	if h := s.Halt; h != nil {
		o.line("HALTED since %s by %s%s. Continue with: flynn resume", localTime(h.Since), cell(h.By), because(h.Reason))
	}
	for _, e := range s.Elevated {
		o.line("Elevated mode (%s) in %s until %s.", e.State, cell(e.Conversation), localTime(e.Until))
	}
	switch n := len(s.Approvals); n {
	case 0:
	case 1:
		o.line("1 request waits for an answer: flynn approvals list")
	default:
		o.line("%d requests wait for an answer: flynn approvals list", n)
	}
	for _, w := range s.Warnings {
		o.line("%s", cell(w))
	}
	o.line("")
	if err := o.table([]string{"PART", "NAME", "STATE", "DETAIL"}, s.rows()); err != nil || len(s.Errors) == 0 {
		return err
	}
	o.line("")
	o.line("Last warnings and errors (more: flynn logs --level warn):")
	for _, r := range s.Errors {
		line := []rune(recordLine(r, time.DateTime))
		o.line("  %s", string(line[:min(len(line), 200)]))
	}
	return nil
}

// queueRow describes the work at hand.
func (s state) queueRow() (word, detail string) {
	replies := 0
	for _, n := range s.Queue.Replies {
		replies += n
	}
	word = "idle"
	if s.Queue.Running+s.Queue.Waiting+replies > 0 {
		word = "busy"
	}
	return word, fmt.Sprintf("%d turns run, %d messages wait, %d replies to deliver", s.Queue.Running, s.Queue.Waiting, replies)
}

// budgetRow describes what was used today.
func budgetRow(b gateway.BudgetStatus) (word, detail string, ok bool) {
	used := func(n, limit, unit string) string {
		if limit == "" {
			return n + unit
		}
		return n + " of " + limit + unit
	}
	tokens, dollars := "", ""
	if b.TokensLimit > 0 {
		tokens = number(b.TokensLimit)
	}
	if b.USDLimit > 0 {
		dollars = fmt.Sprintf("%.2f", b.USDLimit)
	}
	spent := b.TokensLimit > 0 && b.Tokens >= b.TokensLimit || b.USDLimit > 0 && b.USD >= b.USDLimit
	word = "ok"
	switch {
	case spent:
		word = "used up"
	case tokens == "" && dollars == "":
		word = "no limit"
	}
	return word, used(number(b.Tokens), tokens, " tokens") + ", " + used(fmt.Sprintf("%.2f", b.USD), dollars, " USD today"), !spent
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + cell(reason) + ")"
}

// rows returns the parts of the host; a state that needs attention ends with "!".
func (s state) rows() (rows [][]string) {
	add := func(part, name, state string, ok bool, details ...string) {
		details = slices.DeleteFunc(details, func(d string) bool { return d == "" })
		if !ok {
			state += " !"
		}
		rows = append(rows, []string{part, name, state, strings.Join(details, ", ")})
	}
	for _, c := range s.Channels {
		add("channel", c.Name, c.State, c.OK, c.Plugin, c.Detail)
	}
	for _, t := range s.Tools {
		add("tools", t.Name, t.State, t.OK, t.Plugin, strconv.Itoa(len(t.Tools))+" tools", t.Detail, strings.Join(t.Problems, "; "))
	}
	for _, p := range s.Policies {
		shadow := ""
		if p.Shadow {
			shadow = "shadow"
		}
		add("policy", p.Name, p.State, p.OK, shadow, strings.Join(p.Kinds, " "), p.Detail)
	}
	for _, m := range s.Models {
		wait := ""
		if !m.Until.IsZero() {
			wait = fmt.Sprintf("%d failures in a row, the last: %s; until %s", m.Failures, m.Last, localTime(m.Until))
		}
		state := m.State
		if state == "closed" { // as of a circuit breaker
			state = "ok"
		}
		add("model", m.Tier, state, wait == "", m.Provider, m.Model, wait)
	}
	switch {
	case !s.Sandbox.Enabled:
		add("sandbox", "", "off", true)
	case s.Sandbox.Available:
		add("sandbox", "", "available", true, s.Sandbox.Engine)
	default:
		add("sandbox", "", "not available", false, s.Sandbox.Detail)
	}
	queue, work := s.queueRow()
	add("queue", "", queue, true, work)
	for _, b := range s.Budgets {
		word, detail, ok := budgetRow(b)
		add("budget", cmp.Or(b.Agent, "host"), word, ok, detail)
	}
	for _, a := range s.Agents {
		where := "on the host"
		if a.Sandbox != "" {
			where = "in sandbox " + a.Sandbox
		}
		add("agent", a.Name, cmp.Or(a.Kind, "chat"), true, a.Model, where)
	}
	return rows
}
