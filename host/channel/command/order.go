package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Session describes the session of a message.
type Session struct {
	Scope   turnlog.Scope
	Running bool
	Queued  int
	Mode    string // of the queue
	Agent   string // "" if no rule names one
	Tier    string
	Model   string
	// OwnModel is true if Agent is an agent CLI, which has its own model.
	OwnModel bool
	Turns    int
	Began    time.Time // zero before the first turn
	// Agents are those that the sender may choose; none if Fixed, which means that a rule for the sender decides.
	Agents []string
	Fixed  bool
	// Tiers are those that may be chosen for Agent, including its own; empty if there is no choice.
	Tiers []string
}

// Order carries out a queued command exactly once: its change, its reply and the end of its message are one commit.
func (d *Service) Order(ctx context.Context, scope string, row mailbox.InboxRow) {
	var told []int64
	for {
		o, err := d.order(ctx, scope, row)
		s := o.Settlement
		if err == nil {
			if o.begins {
				told = append(told, d.cfg.Turns.Untold(scope)...) // they are about the old session
				err = d.endAllowed(ctx, scope, row.Message)
			}
			s.Told = told
		}
		if err == nil {
			err = d.cfg.Store.Settle(context.WithoutCancel(ctx), s)
		}
		switch {
		case err == nil:
			o.applied()
			for _, r := range s.Replies {
				d.show(ctx, row.Message, s.Turn, r, r.Text)
			}
			d.afterwards(ctx, s.Deletions)
			return
		case store.Settled(err) || ctx.Err() != nil:
			return
		}
		d.cfg.Log.Error("cannot carry out command; trying again", "inbox", row.ID, "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// ordered is the change and the reply of a command.
type ordered struct {
	turnlog.Settlement
	applied func() // to be called once it is committed
	begins  bool   // a new session
}

func (d *Service) order(ctx context.Context, scope string, row mailbox.InboxRow) (ordered, error) {
	o := ordered{applied: func() {}}
	m := row.Message
	c, ok := Parse(m.Text)
	if !ok || !c.Queued() { // it was checked before it was queued
		return o, fmt.Errorf("inbox row %d is not a queued command", row.ID)
	}
	at, err := d.cfg.Store.Scope(ctx, scope)
	if err != nil {
		return o, err
	}
	var text string
	var changed bool
	var buttons []message.Button
	switch {
	case c.Name == "delete":
		text, buttons, o.Deletions, err = d.delete(ctx, m, c, &at)
		changed = len(o.Deletions) > 0
	case c.Name == "compact" && d.mayOrder(m):
		made, failed := d.cfg.Scopes.Compact(ctx, at, row)
		text, o.Summary, err = made.Text, made.Summary, failed
		if made.Applied != nil {
			o.applied = made.Applied
		}
	default:
		text, changed, err = d.change(ctx, m, c, &at)
	}
	if err != nil {
		return o, err
	}
	turn, reply := reply(row, text)
	reply.Buttons = buttons
	o.Inbox, o.Note, o.Turn, o.Replies = row.ID, "command "+c.Name, turn, []message.Reply{reply}
	if changed {
		o.Scope = &at
	}
	o.begins = changed && (c.Name == "new" || c.Name == "delete")
	return o, nil
}

// mayOrder reports whether a sender may change the scope of a message: in a group, owners and members may.
func (d *Service) mayOrder(m message.Message) bool {
	return m.Conversation.Kind == message.DM || d.cfg.Rules.Role(m.Channel, m.SenderKey()) != route.Guest
}

// change changes a scope and returns the text of the reply.
func (d *Service) change(ctx context.Context, m message.Message, c Command, at *turnlog.Scope) (text string, changed bool, err error) {
	if !d.mayOrder(m) {
		return "Only owners and members can do this in a group.", false, nil
	}
	if c.Name == "new" {
		if _, err := d.cfg.Elevated.End(ctx, m.ConversationKey(), string(m.SenderKey()), "by /new"); err != nil {
			return "", false, err
		}
		at.Epoch, at.Began, at.Why = at.Epoch+1, d.cfg.Now().UTC(), turnlog.BeganAsked
		return "A new session starts: the agent does not see the earlier conversation any more. Files in the workspace stay.", true, nil
	}
	s, err := d.cfg.Scopes.Look(ctx, at.Key, m)
	if err != nil {
		return "", false, err
	}
	if c.Name == "agent" {
		text, changed = chooseAgent(s, c.Arg, at)
	} else {
		text, changed = chooseTier(s, c.Arg, at)
	}
	return text, changed, nil
}

// undo is the argument that undoes a choice.
const undo = "default"

func chooseAgent(s Session, name string, at *turnlog.Scope) (text string, changed bool) {
	switch {
	case name == "":
		return agents(s), false
	case name == undo:
		at.Agent = ""
		return "The agent that the configuration names answers from now on.", true
	case s.Fixed:
		return "The configuration says which agent answers you.", false
	case !slices.Contains(s.Agents, name):
		return "You cannot choose such an agent. " + agents(s) + undoing(at), false
	}
	at.Agent = name
	return fmt.Sprintf("Agent %s answers here from now on. `/agent default` undoes it.", name), true
}

// undoing says how to undo a choice, to a sender who tries it by an agent's name.
func undoing(at *turnlog.Scope) string {
	if at.Agent == "" {
		return ""
	}
	return " `/agent default` undoes the choice."
}

func agents(s Session) string {
	text := "No agent answers you here."
	if s.Agent != "" {
		text = fmt.Sprintf("Agent %s answers you here.", s.Agent)
	}
	switch {
	case s.Fixed:
		return text + " The configuration names it for you."
	case len(s.Agents) == 0:
		return text + " There is no other to choose."
	}
	return text + " You can choose with `/agent NAME`: " + strings.Join(s.Agents, ", ") + "."
}

func chooseTier(s Session, tier string, at *turnlog.Scope) (text string, changed bool) {
	switch {
	case tier == "":
		return tiers(s), false
	case tier == undo && !slices.Contains(s.Tiers, undo):
		at.Tier = ""
		return "The model that the configuration names answers from now on.", true
	case !slices.Contains(s.Tiers, tier):
		return "You cannot choose such a model. " + tiers(s), false
	}
	at.Tier = tier
	if tier == s.Tiers[0] {
		return fmt.Sprintf("The model of tier %s answers here from now on, as the configuration says.", tier), true
	}
	return fmt.Sprintf("The model of tier %s answers here from now on. `/model %s` undoes it.", tier, back(s)), true
}

// back returns the argument that undoes the choice of a tier. If a tier is called default, that word chooses it.
func back(s Session) string {
	if slices.Contains(s.Tiers, undo) {
		return s.Tiers[0]
	}
	return undo
}

func tiers(s Session) string {
	text := "No model answers you here."
	if s.OwnModel {
		text = fmt.Sprintf("Agent %s has its own model.", s.Agent)
	} else if s.Tier != "" {
		text = fmt.Sprintf("The model of tier %s answers you here.", s.Tier)
	}
	if len(s.Tiers) < 2 {
		return text + " There is no other to choose."
	}
	return text + " You can choose with `/model TIER`: " + strings.Join(s.Tiers, ", ") + "."
}

// describe describes a session for /status.
func (d *Service) describe(s Session) string {
	var b strings.Builder
	if s.Agent == "" {
		b.WriteString("\n- No agent answers you here.")
	} else {
		fmt.Fprintf(&b, "\n- Agent: %s%s", s.Agent, chosen(s.Scope.Agent == s.Agent))
		if s.OwnModel {
			b.WriteString("\n- Model: its own")
		} else if s.Tier != "" {
			fmt.Fprintf(&b, "\n- Model: %s, tier %s%s", s.Model, s.Tier, chosen(s.Scope.Tier == s.Tier))
		}
	}
	if s.Began.IsZero() {
		b.WriteString("\n- Session: nothing was said in it yet")
	} else {
		fmt.Fprintf(&b, "\n- Session: %s old, %s", age(d.cfg.Now().Sub(s.Began)), count(s.Turns, "turn"))
	}
	fmt.Fprintf(&b, "\n- Queue: %d wait, mode %s", s.Queued, s.Mode)
	return b.String()
}

func chosen(is bool) string {
	if is {
		return " (chosen here)"
	}
	return ""
}

// age returns a time in one unit that people read at a glance.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", max(d, 0)/time.Minute)
}
