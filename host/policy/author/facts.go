package author

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Facts are the facts of a case, under the names that they have in a case file.
type Facts struct {
	Channel          string   `toml:"channel"` // "" means the sender's
	Conversation     string   `toml:"conversation"`
	ConversationKind string   `toml:"conversation_kind"`
	Parent           string   `toml:"parent"`
	Sender           string   `toml:"sender"` // "instance:platform-id"; the instance is the channel. "" means a guest of the channel
	SenderName       string   `toml:"sender_name"`
	Account          string   `toml:"account"`
	Role             string   `toml:"role"`
	Text             string   `toml:"text"`
	Addressed        bool     `toml:"addressed"`
	Attachments      int      `toml:"attachments"`
	Labels           []string `toml:"labels"`
	Door             string   `toml:"door"`
	Now              string   `toml:"now"`  // RFC 3339
	Zone             string   `toml:"zone"` // IANA name of the host's zone
	Seed             int64    `toml:"seed"`
	Edited           bool     `toml:"edited"`
	Mentioned        bool     `toml:"mentioned"`
	AttachmentTypes  []string `toml:"attachment_types"` // of the attachments; where attachments is left out it is their number
	SenderRoles      []string `toml:"sender_roles"`
	Turns            int      `toml:"turns"`
	SessionTokens    int64    `toml:"session_tokens"`
	SessionCost      int64    `toml:"session_cost"`
	SessionAge       int64    `toml:"session_age"`

	Candidate string   `toml:"candidate"`
	Agents    []string `toml:"agents"`

	Agent       string `toml:"agent"`
	Session     string `toml:"session"`
	Tool        string `toml:"tool"`
	Effect      string `toml:"effect"`
	Sandboxed   bool   `toml:"sandboxed"`
	CallsInTurn int    `toml:"calls_in_turn"`

	when moment
}

// moment caches the time of Now in Zone, because loading a zone takes longer than a decision.
type moment struct {
	now, zone string
	at        time.Time
}

// defaultFacts returns the facts of a guest's private message on a Monday at noon.
func defaultFacts() Facts {
	return Facts{
		Conversation: "c1", ConversationKind: string(message.DM), Role: "guest", Addressed: true,
		Door: "channel", Now: "2026-01-05T12:00:00Z", Zone: "UTC", Seed: 1, Session: "test:c1:helper", Agent: "helper",
		Candidate: "helper", Agents: []string{"helper"},
	}
}

// Clone returns a copy that shares nothing.
func (f Facts) Clone() Facts {
	f.Labels, f.Agents = slices.Clone(f.Labels), slices.Clone(f.Agents)
	f.AttachmentTypes, f.SenderRoles = slices.Clone(f.AttachmentTypes), slices.Clone(f.SenderRoles)
	return f
}

// Settle fills in the channel and the sender from each other, and checks the facts.
func (f *Facts) Settle() error {
	if f.Sender == "" {
		f.Sender = cmp.Or(f.Channel, "test") + ":guest"
	}
	instance, _, ok := message.SenderKey(f.Sender).Cut()
	if !ok {
		return fmt.Errorf("sender = %q: write \"instance:platform-id\"", f.Sender)
	}
	if f.Channel != "" && f.Channel != instance {
		return fmt.Errorf("sender = %q is not of channel = %q", f.Sender, f.Channel)
	}
	f.Channel = instance
	at, err := f.now()
	if err == nil {
		f.when = moment{f.Now, f.Zone, at}
	}
	return err
}

func (f Facts) now() (time.Time, error) {
	if w := f.when; w.now == f.Now && w.zone == f.Zone && w.now != "" {
		return w.at, nil
	}
	zone, err := time.LoadLocation(f.Zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("zone = %q: %w", f.Zone, err)
	}
	now, err := time.Parse(time.RFC3339, f.Now)
	if err != nil {
		return time.Time{}, fmt.Errorf("now = %q: write it like %s", f.Now, defaultFacts().Now)
	}
	return now.In(zone), nil
}

// common returns the engine's facts that both kinds have. The facts were checked by Settle.
func (f Facts) common() policy.Facts {
	now, _ := f.now()
	_, id, _ := message.SenderKey(f.Sender).Cut()
	return policy.Facts{
		Message: message.Message{
			Channel: f.Channel, EventID: "case", Text: f.Text, Addressed: f.Addressed,
			Conversation: message.Conversation{ID: f.Conversation, Kind: message.Kind(f.ConversationKind), Parent: f.Parent},
			Sender:       message.Sender{ID: id, Name: f.SenderName, Account: f.Account, Roles: f.SenderRoles},
			Attachments:  f.attached(), Edited: f.Edited, Mentioned: f.Mentioned, ReceivedAt: now,
		},
		Role: f.Role, Door: f.Door, Labels: f.Labels, Now: now, Seed: f.Seed,
		Used: policy.Usage{
			Turns: f.Turns, Tokens: f.SessionTokens, Cost: f.SessionCost, Age: time.Duration(f.SessionAge) * time.Second,
		},
	}
}

func (f Facts) attached() []message.Attachment {
	list := make([]message.Attachment, max(f.Attachments, len(f.AttachmentTypes)))
	for i, t := range f.AttachmentTypes {
		list[i].Type = t
	}
	return list
}

// RouteFacts returns the facts of a case of kind route as the engine takes them.
func (c Case) RouteFacts() policy.RouteFacts {
	return policy.RouteFacts{Facts: c.Ask.common(), Candidate: c.Ask.Candidate, Agents: c.Ask.Agents}
}

// ToolFacts returns the facts of a case of kind tool as the engine takes them.
func (c Case) ToolFacts() policy.ToolFacts {
	f := c.Ask
	return policy.ToolFacts{
		Facts: f.common(), Agent: f.Agent, Session: f.Session, Tool: f.Tool, Effect: f.Effect, Args: c.Args,
		Sandboxed: f.Sandboxed, CallsInTurn: f.CallsInTurn,
	}
}
