package main

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

func routeCommand() *cli.Command {
	return &cli.Command{
		Name: "route", Category: groupDevelop,
		Usage: "explain the routing of messages",
		Commands: []*cli.Command{{
			Name:  "test",
			Usage: "print whether a message is admitted, which agent would answer it, and why",
			Description: "Asks the running flynn. If none runs, it decides as one would, by the configuration and the pairings of its store. Nothing is\n" +
				"sent and nothing is recorded, and rates do not count.\n" +
				"A sender is written as the channel knows it, without the channel's name before it.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "channel", Usage: "`NAME` of the channel instance, or web or terminal", Required: true},
				&cli.StringFlag{Name: "sender", Usage: "the sender's `ID` on its platform", Required: true},
				&cli.StringFlag{Name: "text", Usage: "`TEXT` of the message"},
				&cli.StringFlag{Name: "conversation", Usage: "`ID` of the conversation (default: the sender's)"},
				&cli.StringFlag{Name: "kind", Usage: "`KIND` of the conversation: dm, group or thread", Value: string(message.DM)},
				&cli.StringFlag{Name: "parent", Usage: "`ID` of the conversation that a thread is in"},
				&cli.StringFlag{Name: "name", Usage: "the sender's `NAME` as people see it"},
				&cli.StringFlag{Name: "account", Usage: "the authenticated `ACCOUNT` behind the sender"},
				&cli.BoolFlag{Name: "bot", Usage: "the sender is a bot"},
				&cli.BoolFlag{Name: "unaddressed", Usage: "the message does not mention Flynn"},
				&cli.BoolFlag{Name: "mentioned", Usage: "the message names Flynn"},
				&cli.BoolFlag{Name: "edited", Usage: "the message is an edit of an earlier one"},
				&cli.StringSliceFlag{Name: "attachment", Usage: "the message has an attachment of media type `TYPE`"},
				&cli.StringSliceFlag{Name: "sender-role", Usage: "the sender's `ROLE` in the conversation, as the platform says"},
				&cli.StringSliceFlag{Name: "label", Usage: "the session carries the provenance `LABEL`"},
				&cli.IntFlag{Name: "turns", Usage: "the session has `N` turns"},
				&cli.Int64Flag{Name: "tokens", Usage: "the session has used `N` tokens"},
				&cli.Int64Flag{Name: "cost", Usage: "the session has cost `N` millionths of a dollar"},
				&cli.StringFlag{Name: "chosen", Usage: "the `AGENT` chosen in the conversation (default: the stored choice)"},
				&cli.DurationFlag{Name: "age", Usage: "the session began `TIME` ago"},
			},
			Action: withConfig(testRoute),
		}},
	}
}

func testRoute(ctx context.Context, cmd *cli.Command, cfg *config.Config) error {
	try := routeTry(cmd)
	m, err := try.Message(cfg.ChannelNames())
	if err != nil {
		return usageError{err}
	}
	e, err := askOrRead(ctx, cfg, http.MethodPost, "/api/v1/routing/try", try, func() (gateway.RouteExplanation, error) {
		return routeAtRest(ctx, cfg, try, m)
	})
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if e.Admission != string(channel.Allowed) {
		out.warn("%s is not admitted: %s", cell(m.SenderKey()), notAdmitted(e))
	}
	if out.asJSON {
		return out.json(e)
	}
	return printRoute(out, e)
}

// routeAtRest explains a message as a host on the configuration would.
func routeAtRest(ctx context.Context, cfg *config.Config, try gateway.RouteTry, m message.Message) (e gateway.RouteExplanation, err error) {
	roles, err := admin.Roles(ctx, cfg)
	if err != nil {
		return e, err
	}
	facts := route.Facts(m, roles, time.Now())
	if try.Session != nil {
		session := try.Session.Facts()
		facts.Labels, facts.Used = session.Labels, session.Used
	}
	policies, release, err := openRoutePolicies(ctx, cfg)
	if err != nil {
		return e, err
	}
	defer release()
	chosen := try.Chosen
	if chosen == "" { // what people have chosen with /agent in the message's conversation scope
		at, err := admin.Scope(ctx, cfg, route.NewScopes(cfg.Sessions, roles).Scope(m))
		if err != nil {
			return e, err
		}
		chosen = at.Agent
	}
	table, _ := route.New(cfg)
	decision, records := route.Decide(ctx, table.With(chosen), policies, policy.RouteFacts{Facts: facts})
	e = gateway.NewRouteExplanation(cfg.Path, m, roles, decision, records)
	admission := channel.NewGate(channel.GateConfig{Config: cfg, Roles: roles, Now: time.Now}).Admit(m)
	e.Admission, e.AdmissionWhy = string(admission.Decision), admission.Why
	return e, nil
}

// notAdmitted returns why a sender is not admitted, with what to do about it.
func notAdmitted(e gateway.RouteExplanation) string {
	switch channel.Decision(e.Admission) {
	case channel.NotListed:
		return e.AdmissionWhy + "; add it to members under [access], or set mode = \"pair\" or \"open\""
	case channel.Pairing:
		return e.AdmissionWhy + "; a code is sent to it, unless it had one lately or was turned down"
	case channel.NotPaired:
		return e.AdmissionWhy + ", and gets no code here; it has to write in a private chat"
	case channel.NotAddressed:
		return e.AdmissionWhy + "; groups = \"all\" under [access] hears everything"
	}
	return e.AdmissionWhy
}

// routeTry returns the message that the flags describe.
func routeTry(cmd *cli.Command) gateway.RouteTry {
	try := gateway.RouteTry{
		Channel: cmd.String("channel"), Sender: cmd.String("sender"), Conversation: cmd.String("conversation"), Kind: message.Kind(cmd.String("kind")),
		Parent: cmd.String("parent"), Text: cmd.String("text"), Name: cmd.String("name"), Account: cmd.String("account"), Roles: cmd.StringSlice("sender-role"),
		Attachments: cmd.StringSlice("attachment"), Bot: cmd.Bool("bot"), Unaddressed: cmd.Bool("unaddressed"), Mentioned: cmd.Bool("mentioned"),
		Edited: cmd.Bool("edited"), Chosen: cmd.String("chosen"),
	}
	for _, name := range []string{"label", "turns", "tokens", "cost", "age"} {
		if cmd.IsSet(name) {
			try.Session = &gateway.RouteSession{
				Labels: cmd.StringSlice("label"), Turns: cmd.Int("turns"), Tokens: cmd.Int64("tokens"), Cost: cmd.Int64("cost"),
				Age: int64(cmd.Duration("age").Seconds()),
			}
		}
	}
	return try
}

// policyHeader is the header of a table of policies that were asked.
var policyHeader = []string{"POLICY", "ANSWER", "FUEL", "TOOK", "WHY"}

func printRoute(out *output, e gateway.RouteExplanation) error {
	place := e.File
	if e.Line > 0 {
		place += ":" + strconv.Itoa(e.Line)
	}
	if err := out.table([]string{"SENDER", "IDENTITY", "ROLE", "ADMISSION", "TIER", "RULE", "PLACE", "CANDIDATE"},
		[][]string{{string(e.Sender), e.Identity, e.Role, e.Admission, e.Tier, e.Rule, place, e.Candidate}}); err != nil {
		return err
	}
	if len(e.Policies) > 0 {
		out.line("")
		err := printList(out, e.Policies, policyHeader, func(p gateway.PolicyAnswer) []string {
			return []string{p.Name, p.Answer, number(p.Fuel), time.Duration(p.Nanos).String(), cmp.Or(p.Error, p.Reason)}
		})
		if err != nil {
			return err
		}
	}
	out.line("")
	switch {
	case e.Admission != string(channel.Allowed) && e.Agent != "":
		out.line("nobody answers: %s (agent %s would)", e.AdmissionWhy, e.Agent)
	case e.Admission != string(channel.Allowed):
		out.line("nobody answers: %s", e.AdmissionWhy)
	case e.Agent != "":
		out.line("agent %s answers", e.Agent)
	case e.Dropped:
		out.line("nobody answers: policy %s drops the message", e.Policy)
	default:
		out.line("nobody answers")
	}
	return nil
}
