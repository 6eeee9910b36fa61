package channel

import (
	"io"
	"time"

	"github.com/flynnhost/flynn/sdk/plugin"
)

// Description describes the plugin. It must agree with plugin.toml.
type Description struct {
	Name    string // [a-z0-9-], 2 to 40 characters
	Version string // exact semver, no "v"
	// ConfigSchema is the JSON schema of the settings: the exact content of the file that plugin.toml names, or empty.
	ConfigSchema []byte
	Capabilities Capabilities
}

// Capabilities are the limits and guarantees of a channel. Abilities are not listed here: they follow from the optional interfaces that the
// Channel implements.
type Capabilities struct {
	MaxTextRunes       int           // longest text of one message; 0: no known limit. The host splits longer ones
	MaxAttachmentBytes int64         // 0: none are accepted
	EditWindow         time.Duration // how long a message can be edited; 0: for ever
	MinEditInterval    time.Duration // between edits of one message; 0: the host's default of 1 s
	Idempotent         bool          // Send recognises a repeated key even after a restart of the plugin
	Exclusive          bool          // one connection per credential: not even two processes of one host may overlap
	Shared             bool          // several hosts may run it at the same time: each event comes to one of them, or has one ID in all
	SendsApart         bool          // all calls work without Run and its connections, also while another process receives; see Channel.Run
	Threads            bool          // conversations may be threads
	Markdown           bool          // Send and Edit take Markdown; otherwise the host sends plain text
	Buttons            bool          // Send and Edit show buttons, and a press is delivered as EventButton
	// Senders is what the platform proves about Sender.ID. The host gives the rights of an owner or a member only to proved senders.
	Senders SenderProof
}

// SenderProof is what a platform proves about the ids of senders.
type SenderProof int

// The proofs of a sender.
const (
	SendersUnsaid   SenderProof = iota // treated as SendersClaimed
	SendersProved                      // the platform authenticates each sender: nobody else can write under the id
	SendersClaimed                     // the id is what the sender claims, such as a nickname that anybody can take
	SendersUnproved                    // the platform does not distinguish senders
)

// String returns the value that plugin.toml uses.
func (p SenderProof) String() string {
	return map[SenderProof]string{SendersProved: "proved", SendersClaimed: "claimed", SendersUnproved: "none"}[p]
}

// Event is something that happened on the platform.
type Event struct {
	// ID is the platform's stable identifier: the same event has the same ID after any restart. It is required and has at most 256 bytes.
	ID           string
	Kind         EventKind // zero: EventMessage
	Conversation Conversation
	Sender       Sender
	Text         string // at most 64 KiB; the host cuts longer text
	Entities     []Entity
	Addressed    bool   // meant for Flynn: a private chat or a mention
	Mentioned    bool   // the text names Flynn's account, in a private chat or elsewhere
	ReplyTo      string // id of the message that this one answers
	TargetID     string // id of the message that an edit, deletion, reaction or button refers to
	Attachments  []Attachment
	SentAt       time.Time // the platform's time; zero if it has none
	RawJSON      []byte    // the platform's own format, for debugging; at most 64 KiB
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of event.
const (
	EventMessage    EventKind = iota
	EventEdit                 // the text of TargetID changed
	EventDelete               // TargetID was removed
	EventReaction             // Text is the reaction to TargetID
	EventCommand              // Text is a platform command with its arguments
	EventButton               // Text is the value of a button of TargetID
	EventMembership           // Text is "join" or "leave"
)

// ConversationKind is the kind of a conversation.
type ConversationKind int

// The kinds of conversation.
const (
	Group  ConversationKind = iota // of several people
	DM                             // between one person and Flynn
	Thread                         // inside Parent
)

// Conversation is a conversation on the platform.
type Conversation struct {
	ID     string
	Kind   ConversationKind
	Parent string
}

// Sender is the author of an event.
type Sender struct {
	// ID is the platform's stable identifier, and a display name only if there is nothing better. A sender whose ID begins with "?" is not
	// verified, and at most a guest, whatever Capabilities.Senders and the operator's rules say.
	ID      string
	Name    string // display name
	Account string // authenticated account, if it differs from ID; empty if not logged in
	Self    bool   // Flynn's own account
	Bot     bool
	// Roles are the sender's roles in this conversation on the platform ("op", "moderator"), the most powerful first; at most 16. Policies
	// use them. Empty if the platform has none.
	Roles []string
}

// Entity marks a range of Event.Text, in bytes.
type Entity struct {
	Kind           string // "mention", "link", "code", "pre", or the platform's own word
	Offset, Length int
	Value          string // a sender id, a URL, a language
}

// Attachment describes media; its content is fetched and uploaded by handle.
type Attachment struct {
	Handle string
	Name   string
	Type   string // media type
	Size   int64  // bytes; 0 if unknown
}

// Media is the content of an attachment.
type Media struct {
	Name   string
	Type   string // media type
	Size   int64  // bytes; 0 if unknown
	SHA256 string // lower-case hex; may be empty
	Body   io.ReadCloser
}

// Send is one message to send.
type Send struct {
	// Key is the idempotency key. The package answers for keys that this process has already sent; across a restart the plugin may do so
	// (Capabilities.Idempotent).
	Key          string
	Conversation Conversation
	ReplyTo      string
	Text         string
	Markdown     bool // Text is Markdown
	Attachments  []Attachment
	Draft        bool // edits will complete it
	// PossibleDuplicate: the host has sent this key before and does not know the outcome.
	PossibleDuplicate bool
	Buttons           []Button // at most 8
	// Resume is the Sent.Resume of an earlier attempt, perhaps by another process, that stopped in the middle: send the rest.
	Resume string
}

// Button is one choice below a message. A press is delivered as an EventButton with the value as its text and the message as its target.
type Button struct {
	Text  string // at most 64 code points
	Value string // at most 64 bytes
	Style ButtonStyle
}

// ButtonStyle is the purpose of a button.
type ButtonStyle int

// The styles of a button.
const (
	ButtonPlain   ButtonStyle = iota
	ButtonPrimary             // agrees
	ButtonDanger              // refuses or destroys
)

// Outcome is the outcome of a send.
type Outcome int

// The outcomes of a send.
const (
	OutcomeUnset     Outcome = iota // OutcomeSent without an error, OutcomeUnknown with one
	OutcomeSent                     // delivered
	OutcomeDuplicate                // this key was delivered before
	OutcomeNotSent                  // certainly not delivered; safe to try again
	OutcomeUnknown                  // may or may not have been delivered
	OutcomeRefused                  // certainly not delivered, and never will be: the chat is gone, the person has blocked the bot
)

// Sent is the result of a send.
type Sent struct {
	Outcome    Outcome
	MessageIDs []string // the platform's ids of the messages that this call sent; several if it was split
	ThreadID   string
	RetryAfter time.Duration // with OutcomeNotSent: the minimum delay before the next attempt
	// Resume, with OutcomeNotSent or OutcomeUnknown, means that the beginning of the send was delivered, as MessageIDs, and that the
	// outcome is that of the rest. It has at most 256 printable bytes; Series sets it for a send of several messages.
	Resume string
}

// Edit replaces the text of a sent message.
type Edit struct {
	Conversation Conversation
	MessageID    string
	Revision     uint64 // rises; the package drops stale ones
	Text         string
	Markdown     bool
	Final        bool     // no further edit follows
	Buttons      []Button // from now on; none removes them
}

// Edited is the result of an edit.
type Edited struct {
	// RetryAfter above zero means that the edit was not applied, and that no edit will be until it has passed.
	RetryAfter time.Duration
}

// Reaction adds or removes a reaction.
type Reaction struct {
	Conversation Conversation
	MessageID    string
	Reaction     string
	Remove       bool
}

// Typing shows or hides that Flynn is typing.
type Typing struct {
	Conversation Conversation
	On           bool
	TTL          time.Duration // how long it should show
}

// Reconcile asks for the outcome of a send.
type Reconcile struct {
	Key          string
	Conversation Conversation
	Text         string
}

// Target is a conversation with its title.
type Target struct {
	Conversation Conversation
	Title        string
}

// State is the state of the connection.
type State = plugin.State

// The states.
const (
	StateConnecting   = plugin.StateConnecting
	StateReady        = plugin.StateReady        // connected and working
	StateDegraded     = plugin.StateDegraded     // working with losses that the text explains
	StateAuthRequired = plugin.StateAuthRequired // a person has to renew a credential
	StateRateLimited  = plugin.StateRateLimited  // the platform asked to slow down
)
