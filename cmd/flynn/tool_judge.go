package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/message"
)

// judgeFlags say which call flynn tool explain judges, in the words of flynn route test.
func judgeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: "dry-run a call by the `AGENT`"},
		&cli.StringFlag{Name: "args", Usage: "the call's arguments, as `JSON`", Value: "{}"},
		&cli.StringFlag{Name: "channel", Usage: "`NAME` of the channel instance, or web or terminal", Value: gateway.ChannelTerminal},
		&cli.StringFlag{Name: "sender", Usage: "the sender's `ID` on its platform (default: the owner, at a local door)"},
		&cli.StringFlag{Name: "text", Usage: "`TEXT` of the message that the agent answers"},
		&cli.StringFlag{Name: "conversation", Usage: "`ID` of the conversation (default: the sender's)"},
		&cli.StringFlag{Name: "kind", Usage: "`KIND` of the conversation: dm, group or thread", Value: string(message.DM)},
		&cli.StringFlag{Name: "parent", Usage: "`ID` of the conversation that a thread is in"},
		&cli.StringFlag{Name: "account", Usage: "the authenticated `ACCOUNT` behind the sender"},
		&cli.StringSliceFlag{Name: "sender-role", Usage: "the sender's `ROLE` in the conversation, as the platform says"},
		&cli.StringSliceFlag{Name: "label", Usage: "add the provenance `LABEL` to those of the session"},
	}
}

// judgeCall shows what would become of one call.
func judgeCall(ctx context.Context, cmd *cli.Command, name string) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	call, err := supposedCall(cmd, c, name)
	if err != nil {
		return err
	}
	var j gateway.Judgement
	if err := client.Ask(ctx, c, "/api/v1/tools/judge", call, &j); errors.Is(err, client.ErrNotRunning) {
		return fmt.Errorf("%w: a call is judged by the flynn that would run it; start it with: flynn serve", err)
	} else if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if j.NotAdmitted != "" {
		o.warn("%s is not admitted: %s", cell(j.Sender), j.NotAdmitted)
	}
	if o.asJSON {
		return o.json(j)
	}
	return printJudgement(o, j)
}

func supposedCall(cmd *cli.Command, c *config.Config, name string) (gateway.Supposed, error) {
	call := gateway.Supposed{
		Tool: name, Agent: cmd.String("agent"), Args: json.RawMessage(cmd.String("args")), Channel: cmd.String("channel"), Sender: cmd.String("sender"),
		Account: cmd.String("account"), SenderRoles: cmd.StringSlice("sender-role"), Conversation: cmd.String("conversation"),
		Kind: message.Kind(cmd.String("kind")), Parent: cmd.String("parent"), Text: cmd.String("text"), Labels: cmd.StringSlice("label"),
	}
	if known := c.ChannelNames(); !slices.Contains(known, call.Channel) {
		return call, usagef("no channel %q (there are: %s)", call.Channel, strings.Join(known, ", "))
	}
	if call.Sender == "" && slices.Contains(config.LocalFrontends(), call.Channel) {
		call.Sender = "owner"
	}
	if call.Conversation == "" {
		call.Conversation = call.Sender
	}
	switch {
	case call.Agent == "":
		return call, usagef("--agent is missing: whose call is it?")
	case call.Sender == "":
		return call, usagef("--sender is missing: who writes over %s?", call.Channel)
	case !json.Valid(call.Args):
		return call, usagef("--args is no JSON: %s", call.Args)
	case !slices.Contains([]message.Kind{message.DM, message.Group, message.Thread}, call.Kind):
		return call, usagef("no kind of conversation %q (dm, group or thread)", call.Kind)
	}
	return call, nil
}

func printJudgement(o *output, j gateway.Judgement) error {
	if err := o.table([]string{"TOOL", "AGENT", "SENDER", "ROLE", "SESSION", "LABELS"},
		[][]string{{j.Tool, j.Agent, j.Sender, j.Role, j.Session, strings.Join(j.Labels, " ")}}); err != nil {
		return err
	}
	if len(j.Policies) > 0 {
		rows := make([][]string, len(j.Policies))
		for i, p := range j.Policies {
			why := p.Reason
			if p.Error != "" {
				why = p.Error
			}
			rows[i] = []string{p.Name, p.Answer, strconv.FormatInt(p.Fuel, 10), time.Duration(p.Nanos).String(), why}
		}
		o.line("")
		if err := o.table([]string{"POLICY", "ANSWER", "FUEL", "TOOK", "WHY"}, rows); err != nil {
			return err
		}
	}
	if len(j.Reasons) > 0 {
		o.line("")
	}
	for _, r := range j.Reasons {
		o.line("restricted: %s", cell(strings.ReplaceAll(r, "\n", " ")))
	}
	o.line("")
	o.line("%s", outcome(j))
	return nil
}

// outcome is what would become of a call, in one line.
func outcome(j gateway.Judgement) string {
	where := "on the host"
	switch {
	case j.Sandbox:
		where = "in the sandbox " + cell(j.Where)
	case j.Elevated:
		where = "on the host, by elevated mode"
	}
	switch {
	case j.Action == "run":
		return "it would run " + where
	case j.Action == "ask" && j.Lease != nil:
		return fmt.Sprintf("it would run %s, without asking: %s grant %s of %s covers it: %s",
			where, j.Lease.Scope, j.Lease.ID, cell(j.Lease.Granter), cell(j.Lease.Covers))
	case j.Action == "ask":
		return "a person would be asked; then it would run " + where
	}
	return "it would be denied"
}
