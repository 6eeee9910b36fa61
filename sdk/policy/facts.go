package policy

import (
	"unsafe"

	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/internal/hostcall"
)

// Facts are the facts of both kinds of decision. A fact that the host does not have reads as its zero value; Has distinguishes absent from
// empty.
type Facts struct{ frame frame }

// Has reports whether the host provided the fact.
func (f Facts) Has(id abi.Field) bool { return f.frame.has(id) }

// Channel is the channel's instance name, as configured.
func (f Facts) Channel() string { return f.frame.str(abi.Channel) }

// Conversation is the platform's identifier of the conversation.
func (f Facts) Conversation() string { return f.frame.str(abi.Conversation) }

// ConversationKind is "dm", "group" or "thread".
func (f Facts) ConversationKind() string { return f.frame.str(abi.ConversationKind) }

// Parent is the conversation that a thread belongs to.
func (f Facts) Parent() string { return f.frame.str(abi.Parent) }

// Sender is "instance:platform-id". Base rules on this, never on SenderName.
func (f Facts) Sender() string { return f.frame.str(abi.Sender) }

// SenderName is the display name, which the sender can change at will.
func (f Facts) SenderName() string { return f.frame.str(abi.SenderName) }

// Account is the authenticated account behind the sender, or "".
func (f Facts) Account() string { return f.frame.str(abi.Account) }

// Role is "owner", "member" or "guest". Treat anything but an exact match as the lowest.
func (f Facts) Role() string { return f.frame.str(abi.Role) }

// Text is the start of the message's text, at most abi.TextInFrame bytes. See FullText.
func (f Facts) Text() string { return f.frame.str(abi.Text) }

// TextLen is the length of the whole text in bytes.
func (f Facts) TextLen() int { return int(f.frame.integer(abi.TextLen)) }

// FullText is the whole text; it asks the host only if the frame holds less.
func (f Facts) FullText() string {
	text := f.Text()
	if f.TextLen() <= len(text) {
		return text
	}
	if full, ok := memory.read(func(buf []byte) int32 { return hostcall.Get(uint32(abi.Text), 0, buf) }); ok {
		return full
	}
	return text
}

// Addressed is true in a private chat and when the message mentions Flynn.
func (f Facts) Addressed() bool { return f.frame.boolean(abi.Addressed) }

// Attachments counts the attachments.
func (f Facts) Attachments() int { return int(f.frame.integer(abi.Attachments)) }

// AttachmentTypes are the media types of the attachments, "" if the channel does not report one.
func (f Facts) AttachmentTypes() List { return f.frame.list(abi.AttachmentTypes) }

// Edited is true when the message replaces an earlier one of its sender.
func (f Facts) Edited() bool { return f.frame.boolean(abi.Edited) }

// Mentioned is true when the message names Flynn, including in a private chat.
func (f Facts) Mentioned() bool { return f.frame.boolean(abi.Mentioned) }

// SenderRoles are the platform's roles of the sender, as the channel reports them ("moderator"). Flynn's own is Role.
func (f Facts) SenderRoles() List { return f.frame.list(abi.SenderRoles) }

// Turns counts the session's turns before this one. For a message that is being routed, the session is the one that it would continue with
// the Candidate.
func (f Facts) Turns() int { return int(f.frame.integer(abi.Turns)) }

// SessionTokens counts the model tokens that the session has used.
func (f Facts) SessionTokens() int64 { return f.frame.integer(abi.SessionTokens) }

// SessionCost is what the session has cost, in millionths of a dollar.
func (f Facts) SessionCost() int64 { return f.frame.integer(abi.SessionCost) }

// SessionAge is the number of seconds since the session began.
func (f Facts) SessionAge() int64 { return f.frame.integer(abi.SessionAge) }

// Labels are the provenance labels of the session ("web:example.com").
func (f Facts) Labels() List { return f.frame.list(abi.Labels) }

// Door is "channel", "web" or "terminal".
func (f Facts) Door() string { return f.frame.str(abi.Door) }

// UnixTime is the time of the decision in seconds. It is the only clock that a policy has.
func (f Facts) UnixTime() int64 { return f.frame.integer(abi.UnixTime) }

// MinuteOfDay runs from 0 to 1439 in the host's zone.
func (f Facts) MinuteOfDay() int { return int(f.frame.integer(abi.MinuteOfDay)) }

// Weekday is 0 for Sunday to 6 for Saturday, in the host's zone.
func (f Facts) Weekday() int { return int(f.frame.integer(abi.Weekday)) }

// Zone is the IANA name of the host's zone.
func (f Facts) Zone() string { return f.frame.str(abi.Zone) }

// Seed is the only source of randomness for a policy; it is recorded with the decision.
func (f Facts) Seed() int64 { return f.frame.integer(abi.Seed) }

// RouteFacts are the facts of a routing decision.
type RouteFacts struct{ Facts }

// ReadRoute parses a frame, in a test; a hook gets its facts as an argument.
func ReadRoute(frame []byte) (RouteFacts, bool) {
	f, ok := openFrame(frame, abi.FrameRoute)
	return RouteFacts{Facts{f}}, ok
}

// Candidate is the agent that the static table chose, or "".
func (f RouteFacts) Candidate() string { return f.frame.str(abi.Candidate) }

// Agents are the agents that may be chosen.
func (f RouteFacts) Agents() List { return f.frame.list(abi.Agents) }

// ToolFacts are the facts of a tool decision.
type ToolFacts struct{ Facts }

// ReadTool parses a frame, in a test; a hook gets its facts as an argument.
func ReadTool(frame []byte) (ToolFacts, bool) {
	f, ok := openFrame(frame, abi.FrameTool)
	return ToolFacts{Facts{f}}, ok
}

// Agent is the agent that wants to call the tool.
func (f ToolFacts) Agent() string { return f.frame.str(abi.Agent) }

// Tool is the tool's name ("shell.exec").
func (f ToolFacts) Tool() string { return f.frame.str(abi.Tool) }

// Effect is "read", "write", "network" or "execute", as the host knows it.
func (f ToolFacts) Effect() string { return f.frame.str(abi.Effect) }

// Session is the session's key.
func (f ToolFacts) Session() string { return f.frame.str(abi.Session) }

// ArgsDigest is the SHA-256 of the canonical arguments, in hex.
func (f ToolFacts) ArgsDigest() string { return f.frame.str(abi.ArgsDigest) }

// Sandboxed is true if the call would currently run in a sandbox.
func (f ToolFacts) Sandboxed() bool { return f.frame.boolean(abi.Sandboxed) }

// CallsInTurn counts the turn's tool calls before this one.
func (f ToolFacts) CallsInTurn() int { return int(f.frame.integer(abi.CallsInTurn)) }

// Arg reads the tool's arguments by JSON Pointer (RFC 6901): a string is returned unquoted, any other value as JSON text. The second result
// is false if the arguments have no such value.
func (f ToolFacts) Arg(pointer string) (string, bool) {
	return memory.read(func(buf []byte) int32 { return hostcall.Arg(pointer, buf) })
}

// ArgKind returns the kind of the JSON value at the pointer: abi.KindAbsent to abi.KindObject.
func (f ToolFacts) ArgKind(pointer string) int { return int(hostcall.ArgKind(pointer)) }

// List is a list of strings inside the frame.
type List struct{ raw string }

// All iterates over the list: for s := range f.Labels().All().
func (l List) All() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for rest := l.raw; len(rest) >= 4; {
			n := uint64(load32(unsafe.Pointer(unsafe.StringData(rest)), 0))
			if n > uint64(len(rest)-4) || !yield(rest[4:4+n]) {
				return
			}
			rest = rest[4+n:]
		}
	}
}

// Contains reports whether the list has exactly this string.
func (l List) Contains(s string) bool {
	for have := range l.All() {
		if have == s {
			return true
		}
	}
	return false
}
