// Package message defines the domain types of Flynn: messages, their senders and conversations, and replies.
//
// Start with Message and Reply. The package imports nothing of the project and does no I/O; all other packages use these types.
package message

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Kind is the kind of a conversation.
type Kind string

// The kinds of conversation. A thread has a parent conversation.
const (
	DM     Kind = "dm"
	Group  Kind = "group"
	Thread Kind = "thread"
)

// Sender is the person or bot that wrote a message, as its channel knows it.
type Sender struct {
	// ID is the platform's stable identifier, which rules match. It is a display name only if the platform has nothing better.
	ID string `json:"id"`
	// Name is the display name, which the sender can change at will.
	Name string `json:"name,omitempty"`
	// Account is the authenticated account of the sender, which differs from ID and Name; empty if the platform has none or the sender
	// is not logged in.
	Account string `json:"account,omitempty"`
	Bot     bool   `json:"bot,omitempty"`
	// Roles are the platform's roles of the sender in this conversation ("moderator"), not Flynn's.
	Roles []string `json:"roles,omitempty"`
}

// Equal reports whether all fields are equal.
func (s Sender) Equal(o Sender) bool {
	return s.ID == o.ID && s.Name == o.Name && s.Account == o.Account && s.Bot == o.Bot && slices.Equal(s.Roles, o.Roles)
}

// Conversation is a chat, group or thread on a channel.
type Conversation struct {
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	Parent string `json:"parent,omitempty"`
}

// Attachment describes media of a message or of a reply.
type Attachment struct {
	// Handle identifies it on its channel: an incoming attachment is fetched by it, and an upload returns it for an outgoing one.
	Handle string `json:"handle,omitempty"`
	// Digest identifies it in the media store, in lower-case hex; empty if it was not fetched.
	Digest string `json:"digest,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"` // media type
	Size   int64  `json:"size,omitempty"` // bytes
}

// Message is a message or another event in a conversation of a channel instance.
type Message struct {
	// Channel is the instance name of the channel, as configured ("irc", "telegram-work", "web").
	Channel string `json:"channel"`
	// EventID is the platform's stable identifier of the event, unique within Channel.
	EventID      string       `json:"event_id"`
	Conversation Conversation `json:"conversation"`
	Sender       Sender       `json:"sender"`
	// Text is valid UTF-8 without NUL and at most MaxText bytes; see Bounded.
	Text string `json:"text"`
	// Cut is true if the message was cut. The text then ends with CutMark.
	Cut bool `json:"cut,omitempty"`
	// Addressed is true if the message is meant for Flynn: in a private chat, or by a mention.
	Addressed bool `json:"addressed,omitempty"`
	// Mentioned is true if the message names Flynn, in any conversation.
	Mentioned bool `json:"mentioned,omitempty"`
	// Edited is true if the message replaces an earlier one of its sender.
	Edited      bool         `json:"edited,omitempty"`
	ReplyTo     string       `json:"reply_to,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Act is what the sender did to the earlier message in About; empty for a message.
	Act   Act   `json:"act,omitempty"`
	About About `json:"about,omitzero"`
	// Noted is true if the event is not answered by itself but mentioned to the next turn of its conversation.
	Noted bool `json:"noted,omitempty"`
	// Agent is the agent that is asked for by name. Only the host's own frontends set it, and routing may decide otherwise.
	Agent string `json:"agent,omitempty"`
	// Folder is the host folder of a conversation with an agent of kind cli. Only the host's own frontends set it.
	Folder string `json:"folder,omitempty"`
	// Call is a tool call for the agent to make without a model. Only the host's own frontends set it.
	Call *Call `json:"call,omitempty"`
	// SentAt is the platform's time of the event, or zero.
	SentAt     time.Time `json:"sent_at,omitzero"`
	ReceivedAt time.Time `json:"received_at,omitzero"`
}

// Call is a tool call that an API client asks for. It is decided about like a model's call.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Act is something done to an earlier message.
type Act string

// The acts.
const (
	Edit   Act = "edit"     // Text is the new text
	Delete Act = "delete"   // the sender deleted it
	React  Act = "reaction" // Text is the reaction
	// Delegated is used by the host itself: About is a background turn, Text its answer with the host's introduction.
	Delegated Act = "delegated"
)

// About is what is known of the earlier message that an act is about.
type About struct {
	ID   string `json:"id"`
	Ours bool   `json:"ours,omitempty"` // Flynn sent it
	Text string `json:"text,omitempty"` // its text, at most MaxAbout bytes; empty if unknown
}

// MaxAbout bounds the text in About, in bytes.
const MaxAbout = 1 << 10

// MaxText bounds the text of one message, in bytes. Bounded cuts longer text and marks it.
const MaxText = 64 << 10

// ScheduleChannel is the channel instance of scheduled messages. Their senders are those on whose behalf the schedules run, as sender
// keys with their own instances: "instance:platform-id".
const ScheduleChannel = "schedule"

// ConsoleChannel is the channel instance of people who are signed in at the console. Their senders are those of their own channels, as
// sender keys, and each conversation belongs to one of them; see ConsoleConversation.
const ConsoleChannel = "console"

// ForeignSenders reports whether the senders on a channel instance belong to other instances.
func ForeignSenders(channel string) bool {
	return channel == ScheduleChannel || channel == ConsoleChannel
}

// MCPFrontend is the channel instance of clients that use the Model Context Protocol.
const MCPFrontend = "mcp"

// SenderKey returns the key of the sender.
func (m Message) SenderKey() SenderKey {
	if ForeignSenders(m.Channel) {
		return SenderKey(m.Sender.ID)
	}
	return NewSenderKey(m.Channel, m.Sender.ID)
}

// Own returns a message of the console as its sender would have written it in a private chat on his own channel: rules and policies are
// about people there, and must not end where the console begins. It returns other messages as they are.
func (m Message) Own() Message {
	if m.Channel == ConsoleChannel {
		m.Channel, m.Sender.ID, _ = SenderKey(m.Sender.ID).Cut()
	}
	return m
}

// ConversationKey returns the key of the conversation.
func (m Message) ConversationKey() ConversationKey {
	return NewConversationKey(m.Channel, m.Conversation.ID)
}

// Reply is an outgoing message.
type Reply struct {
	// Key is the idempotency key of the delivery: a repeated send with the same key must not appear twice.
	Key          string       `json:"key"`
	Channel      string       `json:"channel"`
	Conversation Conversation `json:"conversation"`
	ReplyTo      string       `json:"reply_to,omitempty"`
	Text         string       `json:"text"` // Markdown
	// PossibleDuplicate marks a resend after an unknown outcome.
	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`
	// Resume is the channel's mark of the part that it has delivered of the current message; empty for nothing.
	Resume string `json:"resume,omitempty"`
	// Answers is the inbox row of the first message that it answers; 0 for a reply that answers none, such as a notice.
	Answers int64 `json:"answers,omitempty"`
	// Amends is the key of an earlier reply of the same turn. If the channel can edit, the text is added to that reply and its buttons
	// are removed; otherwise nothing is sent.
	Amends string `json:"amends,omitempty"`
	// Attachments are files of the media store to send with the text.
	Attachments []Attachment `json:"attachments,omitempty"`
	// Buttons are choices below the text, at most MaxButtons. A channel without buttons shows only the text, which must suffice.
	Buttons []Button `json:"buttons,omitempty"`
}

// ConversationKey returns the key of the conversation of its destination.
func (r Reply) ConversationKey() ConversationKey {
	return NewConversationKey(r.Channel, r.Conversation.ID)
}

// Button is one choice below a reply.
type Button struct {
	Text  string      `json:"text"`  // at most 64 code points
	Value string      `json:"value"` // sent back when pressed; at most 64 bytes
	Style ButtonStyle `json:"style,omitempty"`
}

// ButtonStyle is the purpose of a button.
type ButtonStyle string

// The styles of a button.
const (
	ButtonPrimary ButtonStyle = "primary" // agrees
	ButtonDanger  ButtonStyle = "danger"  // refuses or destroys
)

// MaxButtons bounds the buttons of one reply.
const MaxButtons = 8

// FileNames returns the names of the attached files. One without a name has its type.
func (m Message) FileNames() []string {
	var names []string
	for _, a := range m.Attachments {
		names = append(names, cmp.Or(a.Name, a.Type, "file"))
	}
	return names
}
