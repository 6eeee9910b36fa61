package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/door"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
)

// backend is the host as its gateway sees it.
type backend struct{ h *Host }

// Submit implements gateway.Backend. Only the doors of this machine come this way.
func (b backend) Submit(ctx context.Context, m message.Message) error {
	if !slices.Contains(config.OwnDoors(), m.Channel) || m.Channel == message.ScheduleDoor {
		return fmt.Errorf("channel %q is not a door of this machine", m.Channel)
	}
	return b.h.inbox.Accept(ctx, m)
}

// Watch implements gateway.Backend.
func (b backend) Watch(channel, conversation string) ([]message.Event, <-chan message.Event, func()) {
	return b.h.broker.Watch(channel, conversation)
}

// Subscribe implements door.Host.
func (b programHost) Subscribe(channel, conversation string) (<-chan message.Event, func()) {
	return b.h.broker.Subscribe(channel, conversation)
}

// History implements gateway.Backend: the turns of a conversation, then the messages that no turn has taken yet.
func (b backend) History(ctx context.Context, channel, conversation string, limit int) ([]gateway.Entry, error) {
	turns, err := b.h.store.History(ctx, channel, conversation, limit)
	if err != nil {
		return nil, err
	}
	waiting, err := b.h.desk.Pending(ctx)
	if err != nil {
		return nil, err
	}
	var out []gateway.Entry
	taken := map[int64]bool{}
	for _, t := range turns {
		pieces, err := b.describe(ctx, t)
		if err != nil {
			return nil, err
		}
		out = append(out, entries(t, pieces, waiting)...)
		for _, id := range t.Inbox {
			taken[id] = true
		}
	}
	pending, err := b.h.store.PendingInbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range pending {
		if m := r.Message; m.Channel == channel && m.Conversation.ID == conversation && !taken[r.ID] {
			out = append(out, gateway.Entry{From: gateway.FromUser, Text: m.Text, Time: m.ReceivedAt, Key: m.EventID})
		}
	}
	return out[max(0, len(out)-limit):], nil
}

// describe tells a turn from the store.
func (b backend) describe(ctx context.Context, t store.Turn) ([]agent.Piece, error) {
	steps, err := b.h.store.Steps(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	var reply string
	if t.State == store.TurnFailed || t.State == store.TurnStopped {
		replies, err := b.h.store.Replies(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		for _, r := range replies {
			if agent.IsAnswer(t.ID, r.Reply) {
				reply = r.Reply.Text
			}
		}
	}
	return agent.Describe(t, steps, reply)
}

// entries puts the pieces of a turn into the gateway's words. Calls that wait for a person are alone, so a request that waits is
// about the first call without a result, and is shown with that call alone.
func entries(t store.Turn, pieces []agent.Piece, waiting []store.Approval) []gateway.Entry {
	var out []gateway.Entry
	next := true
	for _, p := range pieces {
		e := entry(t, p)
		if p.Call != nil && !p.Done && next {
			next = false
			i := slices.IndexFunc(waiting, func(a store.Approval) bool { return a.Turn == t.ID && a.Tool == p.Call.Tool })
			if i >= 0 {
				a := waiting[i]
				e.Call.Approval, e.Call.Verdict, e.Call.Args, e.Call.Where, e.Call.Reasons = a.ID, "ask", a.Args, a.Where, a.Reasons
			}
		}
		out = append(out, e)
	}
	return out
}

func entry(t store.Turn, p agent.Piece) gateway.Entry {
	e := gateway.Entry{Agent: t.Agent, Turn: t.ID, Text: p.Text, Time: p.At, Key: p.Key, IsError: p.IsError}
	switch {
	case p.Said:
		e.From = gateway.FromUser
	case p.Call == nil:
		e.From = gateway.FromAgent
	default:
		e.From = gateway.FromTool
		c := p.Call
		e.Call = &gateway.ToolCall{
			ID: c.Call, Tool: c.Tool, Args: c.Args, Verdict: c.Verdict, Where: c.Where, Reasons: c.Reasons, Done: p.Done,
		}
	}
	return e
}

// listedConversations bounds the list of conversations.
const listedConversations = 200

// Conversations implements gateway.Backend.
func (b backend) Conversations(ctx context.Context) ([]gateway.ConversationInfo, error) {
	sessions, err := b.h.store.Sessions(ctx, math.MaxInt32) // most may be of channels, whose conversations are not listed
	if err != nil {
		return nil, err
	}
	var out []gateway.ConversationInfo
	at := map[string]int{} // by place
	for _, s := range sessions {
		place, _, _ := store.SessionParts(s.Key)
		channel, id, _ := strings.Cut(place, ":")
		if door.Once(channel, id, s.Turns) { // nobody goes on with these, and programs make many
			continue
		}
		i, known := at[place]
		switch {
		case known:
			out[i].Turns += s.Turns
		case slices.Contains(config.OwnDoors(), channel) && len(out) < listedConversations:
			at[place] = len(out)
			out = append(out, gateway.ConversationInfo{
				Channel: channel, ID: id, Agent: s.Agent, Last: s.Last, Title: b.title(ctx, channel, id), Running: b.h.runner.RunningIn(place), Turns: s.Turns,
			})
		}
	}
	return out, nil
}

// titleTurns is how many turns are looked at for a title: the first may have been given up, or be about a file alone.
const titleTurns = 5

// title is the beginning of what was said first in a conversation, so that it stays the same.
func (b backend) title(ctx context.Context, channel, conversation string) string {
	turns, err := b.h.store.FirstTurns(ctx, channel, conversation, titleTurns)
	if err != nil {
		return ""
	}
	for _, t := range turns {
		pieces, err := b.describe(ctx, t)
		if err != nil {
			return ""
		}
		for _, p := range pieces {
			if words := []rune(strings.Join(strings.Fields(p.Text), " ")); p.Said && len(words) > 0 {
				return string(words[:min(len(words), 60)])
			}
		}
	}
	return ""
}

// Stop implements gateway.Backend.
func (b backend) Stop(_ context.Context, channel, conversation string) error {
	b.h.runner.StopIn(channel + ":" + conversation)
	return nil
}

// Approvals implements gateway.Backend.
func (b backend) Approvals(ctx context.Context) ([]store.Approval, error) {
	return b.h.desk.Pending(ctx)
}

// Decide implements gateway.Backend.
func (b backend) Decide(ctx context.Context, id string, grant bool, by string) error {
	return answered(b.h.desk.Decide(ctx, id, grant, by))
}

// Ready implements gateway.Backend.
func (b backend) Ready(context.Context) error {
	if !b.h.ready.Load() {
		return errors.New("the host is starting or stopping")
	}
	return b.h.plugins.CriticalDown()
}

// Status implements gateway.Backend.
func (b backend) Status(ctx context.Context) gateway.Status {
	g := b.h.current.Load()
	s := gateway.Status{
		Version: b.h.version, Generation: g.Number, Started: b.h.started, Agents: []gateway.AgentStatus{},
		Channels: []gateway.ChannelStatus{}, Policies: b.h.policyStatuses(ctx), Warnings: b.warnings(g),
		Halt: b.h.haltStatus(), Elevated: b.elevations(ctx),
	}
	for _, name := range slices.Sorted(maps.Keys(g.config.Agents)) {
		a := g.config.Agents[name]
		m := g.config.Models[a.ModelTier]
		st := gateway.AgentStatus{Name: name, Kind: a.Kind, Model: modelName(m), Tools: a.ToolProfile}
		if a.Kind == "cli" { // a program with a model and tools of its own
			st.Model, st.Tools = "", ""
		}
		if g.Agents[name].Sandboxed {
			st.Sandbox = sandboxName(g.Agents[name].Sandbox)
		}
		s.Agents = append(s.Agents, st)
	}
	s.Models = modelStatuses(g.models.Status())
	for _, p := range b.h.plugins.Status() {
		if p.Kind == plugin.Tools {
			s.Tools = append(s.Tools, b.toolStatus(g, p))
			continue
		}
		s.Channels = append(s.Channels, gateway.ChannelStatus{
			Name: p.Name, Plugin: p.Plugin, State: string(p.State), Detail: attachedDetail(p), OK: p.State == plugin.Ready,
			Login: p.Login,
		})
	}
	if g.config.Sandbox.Enabled {
		s.Sandbox = gateway.SandboxStatus{Enabled: true, Available: true}
		if err := b.h.fleet.AsOfNow(); err != nil {
			s.Sandbox.Available, s.Sandbox.Detail = false, machine.Reason(err)
		}
	}
	return s
}

// attachedDetail says it as long as it is so.
func attachedDetail(p plugin.Status) string {
	if p.Attached == "" {
		return pluginDetail(p)
	}
	return strings.TrimSuffix("attached to "+p.Attached+", which is not verified; "+pluginDetail(p), "; ")
}

// pluginDetail is what a plugin says of its platform or, while it is of no use, why.
func pluginDetail(p plugin.Status) string {
	switch {
	case p.State == plugin.Ready || p.State == plugin.Degraded || p.LastError == "":
		return p.Detail
	case p.Detail == "":
		return p.LastError
	}
	return p.LastError + " (" + p.Detail + ")"
}

func sandboxName(name string) string { return cmp.Or(name, "default") }

// warnings are what the owner should know at a glance.
func (b backend) warnings(g *generation) []string {
	out := []string{}
	c := g.config.Sandbox
	if !c.Enabled {
		out = append(out, "The sandbox is off: tools run on this machine, each shell command after an approval.")
	} else if err := b.h.fleet.AsOfNow(); err != nil {
		what := "tools that belong in a sandbox are refused"
		if c.OnUnavailable == "host" {
			what = "tools run on this machine, each shell command after an approval"
		}
		out = append(out, fmt.Sprintf("No sandbox: %s. The reason: %s.", what, machine.Reason(err)))
	}
	for _, p := range b.h.policies.Status() {
		if p.Error != "" {
			out = append(out, fmt.Sprintf("Policy %s: %s", p.Name, p.Error))
		}
		if p.Stateful > 0 {
			out = append(out, fmt.Sprintf("Policy %s remembers what it should not: a module in its first state makes %d of the sampled decisions otherwise. "+
				"Set isolation = \"pure\" for it.", p.Name, p.Stateful))
		}
		if p.AllowOnError {
			out = append(out, fmt.Sprintf("Policy %s restricts nothing where it fails (dangerously_allow_on_error): %d tool calls have passed so.",
				p.Name, p.Passed))
		}
	}
	return append(out, stranded(b.h.outbox.Waiting(), g.config.Channels)...)
}

// stranded tells of replies that nothing delivers as things stand.
func stranded(waiting map[string]int, channels map[string]config.Channel) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if !slices.Contains(config.OwnDoors(), name) && !channels[name].Enabled {
			out = append(out, fmt.Sprintf("%d replies wait for the channel %s, which is not configured.", waiting[name], name))
		}
	}
	return out
}
