package author

import "github.com/flynnhost/flynn/sdk/policy/abi"

// fieldNames are the facts' names as case files write them; a test holds them against package abi.
var fieldNames = map[abi.Field]string{
	abi.Channel: "channel", abi.Conversation: "conversation", abi.ConversationKind: "conversation_kind", abi.Parent: "parent",
	abi.Sender: "sender", abi.SenderName: "sender_name", abi.Account: "account", abi.Role: "role", abi.Text: "text", abi.TextLen: "text_len",
	abi.Addressed: "addressed", abi.Attachments: "attachments", abi.Labels: "labels", abi.Door: "door", abi.UnixTime: "unix_time",
	abi.MinuteOfDay: "minute_of_day", abi.Weekday: "weekday", abi.Zone: "zone", abi.Seed: "seed", abi.Candidate: "candidate", abi.Agents: "agents",
	abi.Agent: "agent", abi.Tool: "tool", abi.Effect: "effect", abi.Session: "session", abi.ArgsDigest: "args_digest", abi.Sandboxed: "sandboxed",
	abi.CallsInTurn: "calls_in_turn", abi.Turns: "turns", abi.Edited: "edited", abi.Mentioned: "mentioned", abi.AttachmentTypes: "attachment_types",
	abi.SenderRoles: "sender_roles", abi.SessionTokens: "session_tokens", abi.SessionCost: "session_cost", abi.SessionAge: "session_age",
	abi.OutAgent: "out_agent", abi.OutSandbox: "out_sandbox", abi.OutReason: "out_reason",
}
