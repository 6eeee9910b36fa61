package opa

import "github.com/flynnhost/flynn/sdk/policy/abi"

// Fact is one key of the document input. All keys of a kind of decision are always present: an unknown fact has the
// empty value of its type, as in the other SDKs.
type Fact struct {
	Name  string
	Field abi.Field
	Type  int // abi.TypeString and so on
}

// IsBool reports whether the fact is true or false.
func (f Fact) IsBool() bool { return f.Type == abi.TypeBool }

// Args is the key of a tool's arguments, which are not a field of the frame.
const Args = "args"

// RouteFacts returns the facts of a routing decision, in the order of the document.
func RouteFacts() []Fact { return append(commonFacts(), routeFacts()...) }

// ToolFacts returns the facts of a tool decision, in the order of the document; Args follows them.
func ToolFacts() []Fact { return append(commonFacts(), toolFacts()...) }

func commonFacts() []Fact {
	return []Fact{
		{"channel", abi.Channel, abi.TypeString},
		{"conversation", abi.Conversation, abi.TypeString},
		{"conversation_kind", abi.ConversationKind, abi.TypeString},
		{"parent", abi.Parent, abi.TypeString},
		{"sender", abi.Sender, abi.TypeString},
		{"sender_name", abi.SenderName, abi.TypeString},
		{"account", abi.Account, abi.TypeString},
		{"role", abi.Role, abi.TypeString},
		{"text", abi.Text, abi.TypeString}, // all of it
		{"text_len", abi.TextLen, abi.TypeInt},
		{"addressed", abi.Addressed, abi.TypeBool},
		{"attachments", abi.Attachments, abi.TypeInt},
		{"labels", abi.Labels, abi.TypeList},
		{"door", abi.Door, abi.TypeString},
		{"unix_time", abi.UnixTime, abi.TypeInt},
		{"minute_of_day", abi.MinuteOfDay, abi.TypeInt},
		{"weekday", abi.Weekday, abi.TypeInt},
		{"zone", abi.Zone, abi.TypeString},
		{"seed", abi.Seed, abi.TypeInt},
		{"edited", abi.Edited, abi.TypeBool},
		{"mentioned", abi.Mentioned, abi.TypeBool},
		{"attachment_types", abi.AttachmentTypes, abi.TypeList},
		{"sender_roles", abi.SenderRoles, abi.TypeList},
		{"session_tokens", abi.SessionTokens, abi.TypeInt},
		{"session_cost", abi.SessionCost, abi.TypeInt},
		{"session_age", abi.SessionAge, abi.TypeInt},
		{"turns", abi.Turns, abi.TypeInt},
	}
}

func routeFacts() []Fact {
	return []Fact{
		{"candidate", abi.Candidate, abi.TypeString},
		{"agents", abi.Agents, abi.TypeList},
	}
}

func toolFacts() []Fact {
	return []Fact{
		{"agent", abi.Agent, abi.TypeString},
		{"tool", abi.Tool, abi.TypeString},
		{"effect", abi.Effect, abi.TypeString},
		{"session", abi.Session, abi.TypeString},
		{"args_digest", abi.ArgsDigest, abi.TypeString},
		{"sandboxed", abi.Sandboxed, abi.TypeBool},
		{"calls_in_turn", abi.CallsInTurn, abi.TypeInt},
	}
}

// Schema returns the JSON Schema of the document input of a policy that decides routes, tools or both.
func Schema(route, tool bool) map[string]any {
	facts, keys := commonFacts(), map[string]any{}
	if route {
		facts = append(facts, routeFacts()...)
	}
	if tool {
		facts = append(facts, toolFacts()...)
		keys[Args] = map[string]any{} // whatever the tool takes
	}
	for _, f := range facts {
		keys[f.Name] = f.schema()
	}
	return map[string]any{"type": "object", "properties": keys, "additionalProperties": false}
}

func (f Fact) schema() map[string]any {
	switch f.Type {
	case abi.TypeInt:
		return map[string]any{"type": "integer"}
	case abi.TypeBool:
		return map[string]any{"type": "boolean"}
	case abi.TypeList:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string"}
}
