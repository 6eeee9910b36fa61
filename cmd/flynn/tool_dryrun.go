package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/message"
)

// dryRunFlags describe the call that flynn tool explain tries, with the names of flynn route test.
func dryRunFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "agent", Usage: "dry-run a call by the `AGENT`"},
		&cli.StringFlag{Name: "args", Usage: "the call's arguments, as `JSON`", Value: "{}"},
		&cli.StringFlag{Name: "channel", Usage: "`NAME` of the channel instance, or web or terminal", Value: gateway.ChannelTerminal},
		&cli.StringFlag{Name: "sender", Usage: "the sender's `ID` on its platform (default: the owner, on web and terminal)"},
		&cli.StringFlag{Name: "text", Usage: "`TEXT` of the message that the agent answers"},
		&cli.StringFlag{Name: "conversation", Usage: "`ID` of the conversation (default: the sender's)"},
		&cli.StringFlag{Name: "kind", Usage: "`KIND` of the conversation: dm, group or thread", Value: string(message.DM)},
		&cli.StringFlag{Name: "parent", Usage: "`ID` of the conversation that a thread is in"},
		&cli.StringFlag{Name: "account", Usage: "the authenticated `ACCOUNT` behind the sender"},
		&cli.StringSliceFlag{Name: "sender-role", Usage: "the sender's `ROLE` in the conversation, as the platform says"},
		&cli.StringSliceFlag{Name: "label", Usage: "add the provenance `LABEL` to those of the session"},
	}
}

// dryRunCall shows what the host would do with one call.
func dryRunCall(ctx context.Context, cmd *cli.Command, name string) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	call, err := supposedCall(cmd, c, name)
	if err != nil {
		return err
	}
	var j gateway.DryRunResult
	if err := client.Ask(ctx, c, http.MethodPost, "/api/v1/tools/dry-run", call, &j); errors.Is(err, client.ErrNotRunning) {
		return fmt.Errorf("%w: only the flynn that would run a call can dry-run it; start it with: flynn serve", err)
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

func supposedCall(cmd *cli.Command, c *config.Config, name string) (gateway.DryRunCall, error) {
	call := gateway.DryRunCall{
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
	call.Conversation = cmp.Or(call.Conversation, call.Sender)
	switch {
	case call.Agent == "":
		return call, usagef("--agent is missing: name the agent that calls")
	case call.Sender == "":
		return call, usagef("--sender is missing: name the sender on %s", call.Channel)
	case !json.Valid(call.Args):
		return call, usagef("--args is not JSON: %s", call.Args)
	case !slices.Contains([]message.Kind{message.DM, message.Group, message.Thread}, call.Kind):
		return call, usagef("no kind of conversation %q (dm, group or thread)", call.Kind)
	}
	return call, nil
}

func printJudgement(o *output, j gateway.DryRunResult) error {
	if err := o.table([]string{"TOOL", "AGENT", "SENDER", "ROLE", "SESSION", "LABELS"},
		[][]string{{j.Tool, j.Agent, string(j.Sender), j.Role, string(j.Session), strings.Join(j.Labels, " ")}}); err != nil {
		return err
	}
	if len(j.Policies) > 0 {
		o.line("")
		err := printList(o, j.Policies, policyHeader, func(p gateway.PolicyAnswer) []string {
			return []string{p.Name, p.Answer, number(p.Fuel), time.Duration(p.Nanos).String(), cmp.Or(p.Error, p.Reason)}
		})
		if err != nil {
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

// outcome says in one line what the host would do with a call.
func outcome(j gateway.DryRunResult) string {
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
