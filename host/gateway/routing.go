package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
)

// Routing shows which agent answers whom, and explains it for a message.
type Routing interface {
	Routing(ctx context.Context) (RoutingTable, error)
	// TryRoute explains what would become of a message now. Nothing is sent or stored, and no rate counts it. store.ErrNotFound if there is no
	// such channel.
	TryRoute(ctx context.Context, t RouteTry) (RouteExplanation, error)
}

// RoutingTable are the rules in the order in which they are tried.
type RoutingTable struct {
	Rules []RouteRule `json:"rules"`
	// Findings are what is doubtful about the rules.
	Findings []route.Finding `json:"findings"`
	// Choices are the agents that people may choose in chat.
	Choices []RouteChoice `json:"choices"`
	// Policies are asked after the rules, in order.
	Policies []string `json:"policies"`
	Channels []string `json:"channels" doc:"The channel instances that a message can come from"`
}

// RouteRule is one rule.
type RouteRule struct {
	Tier  route.Tier `json:"tier"`
	Rule  string     `json:"rule"`
	Agent string     `json:"agent"`
	Line  int        `json:"line,omitempty" doc:"In flynn.toml"`
}

// RouteChoice is an agent that people may choose, from a role on.
type RouteChoice struct {
	Agent string `json:"agent"`
	Least string `json:"least"`
}

// RouteTry is a message to explain.
type RouteTry struct {
	Channel      string       `json:"channel" minLength:"1" maxLength:"256" doc:"The channel instance, or web or terminal"`
	Sender       string       `json:"sender" minLength:"1" maxLength:"512" doc:"As the channel knows the sender, without the channel's name"`
	Conversation string       `json:"conversation,omitempty" maxLength:"512" doc:"The sender's if it is absent"`
	Kind         message.Kind `json:"kind,omitempty" enum:"dm,group,thread"`
	Parent       string       `json:"parent,omitempty" maxLength:"512" doc:"The conversation that a thread is in"`
	Text         string       `json:"text,omitempty" maxLength:"32768"`
	Name         string       `json:"name,omitempty" maxLength:"512" doc:"The sender's name as people see it"`
	Account      string       `json:"account,omitempty" maxLength:"512" doc:"The authenticated account behind the sender"`
	Roles        []string     `json:"roles,omitempty" maxItems:"32" doc:"The sender's roles in the conversation, as the platform says"`
	Attachments  []string     `json:"attachments,omitempty" maxItems:"32" doc:"Media types of attachments"`
	Bot          bool         `json:"bot,omitempty"`
	Unaddressed  bool         `json:"unaddressed,omitempty" doc:"The message does not mention Flynn"`
	Mentioned    bool         `json:"mentioned,omitempty" doc:"The message names Flynn"`
	Edited       bool         `json:"edited,omitempty" doc:"The message is an edit of an earlier one"`
	// Chosen and Session are supposed instead of what the conversation has.
	Chosen  string        `json:"chosen,omitempty" maxLength:"256" doc:"An agent that is supposed to be chosen in the conversation"`
	Session *RouteSession `json:"session,omitempty" doc:"What the session is supposed to have touched and used; as it is, if this is absent"`
}

// RouteSession is what a session has touched and used.
type RouteSession struct {
	Labels []string `json:"labels,omitempty" maxItems:"64" doc:"Provenance labels"`
	Turns  int      `json:"turns,omitempty" minimum:"0"`
	Tokens int64    `json:"tokens,omitempty" minimum:"0"`
	Cost   int64    `json:"cost,omitempty" minimum:"0" doc:"Millionths of a dollar"`
	Age    int64    `json:"age_seconds,omitempty" minimum:"0"`
}

// Facts returns it as policies see it.
func (s RouteSession) Facts() (f policy.Facts) {
	f.Labels = tool.JoinLabels(nil, s.Labels)
	f.Used = policy.Usage{Turns: s.Turns, Tokens: s.Tokens, Cost: s.Cost, Age: time.Duration(s.Age) * time.Second}
	return f
}

// Message returns the message, bounded as a channel's. channels are the instances that there are.
func (t RouteTry) Message(channels []string) (message.Message, error) {
	if !slices.Contains(channels, t.Channel) {
		hint := "run \"flynn config show\""
		if near := config.Nearest(t.Channel, channels); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return message.Message{}, BadRequest(fmt.Sprintf("no channel %q (%s)", t.Channel, hint))
	}
	t.Kind = cmp.Or(t.Kind, message.DM)
	if !slices.Contains([]message.Kind{message.DM, message.Group, message.Thread}, t.Kind) {
		return message.Message{}, BadRequest(fmt.Sprintf("no kind of conversation %q (dm, group or thread)", t.Kind))
	}
	m := message.Message{
		Channel:      t.Channel,
		EventID:      "test",
		Conversation: message.Conversation{ID: cmp.Or(t.Conversation, t.Sender), Kind: t.Kind, Parent: t.Parent},
		Sender:       message.Sender{ID: t.Sender, Name: t.Name, Account: t.Account, Bot: t.Bot, Roles: t.Roles},
		Text:         t.Text,
		Addressed:    !t.Unaddressed,
		Mentioned:    t.Mentioned,
		Edited:       t.Edited,
	}
	for _, kind := range t.Attachments {
		m.Attachments = append(m.Attachments, message.Attachment{Type: kind})
	}
	return m.Bounded(), nil
}

// RouteExplanation is what becomes of a message, and why.
type RouteExplanation struct {
	Sender message.SenderKey `json:"sender"`
	Role   string            `json:"role"`
	// Identity is what the platform proves about the sender's id.
	Identity string `json:"identity"`
	// Admission is a channel.Decision.
	Admission    string         `json:"admission"`
	AdmissionWhy string         `json:"admission_why,omitempty"`
	Tier         string         `json:"tier,omitempty"`
	Rule         string         `json:"rule,omitempty"`
	File         string         `json:"file"`
	Line         int            `json:"line,omitempty"`
	Candidate    string         `json:"candidate,omitempty"`
	Policies     []PolicyAnswer `json:"policies"`
	Agent        string         `json:"agent,omitempty"`
	Policy       string         `json:"policy,omitempty"`
	Reason       string         `json:"reason,omitempty"`
	Failed       bool           `json:"failed"`
	Dropped      bool           `json:"dropped"`
}

// NewRouteExplanation explains the decision about a message. file is the configuration that has the rules.
func NewRouteExplanation(file string, m message.Message, roles *route.Roles, d route.Decision, records []policy.Record) RouteExplanation {
	e := RouteExplanation{
		Sender: m.SenderKey(), Role: roles.Of(m.Channel, m.SenderKey()), Identity: roles.Identity(m.Channel, m.SenderKey()),
		Tier: string(d.Static.Tier), Rule: d.Static.Rule, File: file, Line: d.Static.Line, Candidate: d.Static.Agent, Policies: PolicyAnswers(records),
		Agent: d.Agent, Policy: d.Policy, Reason: d.Reason, Failed: d.Failed, Dropped: d.Dropped(),
	}
	return e
}

// PolicyAnswers returns the records of policies that were asked as the gateway shows them.
func PolicyAnswers(records []policy.Record) []PolicyAnswer {
	out := []PolicyAnswer{}
	for _, r := range records {
		out = append(out, PolicyAnswer{
			Name: r.Policy, Digest: r.Digest, Answer: r.Answer, Reason: r.Reason, Error: r.Error, Fuel: r.Fuel, Nanos: r.Took.Nanoseconds(),
		})
	}
	return out
}
