// Package message holds the domain words of Flynn: what a person sent, who
// sent it, where, and what goes back.
//
// Start with Message and Reply. The package imports nothing of the project and
// does no I/O; everything above it speaks in these types.
package message

import (
	"encoding/json"
	"slices"
	"time"
)

// Kind says what sort of conversation a message belongs to.
type Kind string

// The kinds of conversation. A thread has a parent conversation.
const (
	DM     Kind = "dm"
	Group  Kind = "group"
	Thread Kind = "thread"
)

// Sender is the person or program that wrote a message, as its channel knows it.
type Sender struct {
	// ID is the platform's stable identifier. Rules match on it. Never a display name
	// where the platform has anything better.
	ID string `json:"id"`
	// Name is what people see; the sender can change it at will.
	Name string `json:"name,omitempty"`
	// Account is the authenticated account behind the sender, empty when the platform has
	// none or the sender is not logged in. It is distinct from ID and Name.
	Account string `json:"account,omitempty"`
	Bot     bool   `json:"bot,omitempty"`
	// Roles are what the platform says the sender is in this conversation ("moderator"). They are no roles of Flynn's.
	Roles []string `json:"roles,omitempty"`
}

// Equal reports whether nothing differs.
func (s Sender) Equal(o Sender) bool {
	return s.ID == o.ID && s.Name == o.Name && s.Account == o.Account && s.Bot == o.Bot && slices.Equal(s.Roles, o.Roles)
}

// Conversation is the place where messages and replies meet.
type Conversation struct {
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	Parent string `json:"parent,omitempty"`
}

// Attachment describes media that came with a message, or goes with a reply.
type Attachment struct {
	// Handle names it on its channel: what came is fetched by it, what goes has got it by an upload.
	Handle string `json:"handle,omitempty"`
	// Digest names it in the media store, lower-case hex; empty for what was not fetched.
	Digest string `json:"digest,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"` // media type
	Size   int64  `json:"size,omitempty"` // bytes
}

// Message is one thing that a sender said in a conversation of a channel instance.
type Message struct {
	// Channel is the instance name of the channel, as configured ("irc", "telegram-work", "web").
	Channel string `json:"channel"`
	// EventID is the platform's stable identifier of the event, unique within Channel.
	EventID      string       `json:"event_id"`
	Conversation Conversation `json:"conversation"`
	Sender       Sender       `json:"sender"`
	// Text is valid UTF-8 without NUL and at most MaxText bytes; see Bounded.
	Text string `json:"text"`
	// Cut is true when the message was longer than Text, which says so at its end.
	Cut bool `json:"cut,omitempty"`
	// Addressed is true when the message is meant for Flynn: a private chat or a mention.
	Addressed bool `json:"addressed,omitempty"`
	// Mentioned is true when the message names Flynn, whatever the conversation.
	Mentioned bool `json:"mentioned,omitempty"`
	// Edited is true when the message replaces an earlier one of its sender.
	Edited      bool         `json:"edited,omitempty"`
	ReplyTo     string       `json:"reply_to,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Act is what the sender did to an earlier message, which About tells of; empty for saying something.
	Act   Act   `json:"act,omitempty"`
	About About `json:"about,omitzero"`
	// Noted is true when the event is not answered by itself: the next turn of its conversation is told.
	Noted bool `json:"noted,omitempty"`
	// Agent is the one that is asked for by name; only doors of the host's own have a way to say it. Routing has the last word.
	Agent string `json:"agent,omitempty"`
	// Folder is one of the host that a conversation with an agent of kind cli is to be about; only doors of the host's own have a way to say it.
	Folder string `json:"folder,omitempty"`
	// Call is a tool that the agent is to call, without a model in between; only doors of the host's own have a way to say it.
	Call *Call `json:"call,omitempty"`
	// SentAt is the platform's time of the event; zero when it tells none.
	SentAt     time.Time `json:"sent_at,omitzero"`
	ReceivedAt time.Time `json:"received_at,omitzero"`
}

// Call is a call of a tool that a program asks for. It is decided about like a model's.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Act is something that is done to an earlier message.
type Act string

// The acts.
const (
	Edit   Act = "edit"     // Text is what the message says now
	Delete Act = "delete"   // it was taken back
	React  Act = "reaction" // Text is the reaction
	// Delegated is of the host's own: About is a turn that worked in the background, Text what it said, in the host's frame.
	Delegated Act = "delegated"
)

// About is the earlier message that an act is about, as far as it is known.
type About struct {
	ID   string `json:"id"`
	Ours bool   `json:"ours,omitempty"` // Flynn said it
	Text string `json:"text,omitempty"` // what it said, at most MaxAbout bytes; empty when nobody knows
}

// MaxAbout bounds what is kept of the message that an act is about, in bytes.
const MaxAbout = 1 << 10

// MaxText bounds the text of one message, in bytes. Bounded cuts longer text and marks it.
const MaxText = 64 << 10

// ScheduleDoor is the channel instance of what schedules say. Its senders are those in whose names they run, with the instances
// that these belong to: "instance:platform-id".
const ScheduleDoor = "schedule"

// MCPDoor is the channel instance of programs that speak the Model Context Protocol.
const MCPDoor = "mcp"

// SenderKey returns the key of the sender.
func (m Message) SenderKey() SenderKey {
	if m.Channel == ScheduleDoor {
		return SenderKey(m.Sender.ID)
	}
	return NewSenderKey(m.Channel, m.Sender.ID)
}

// ConversationKey returns the key of the conversation.
func (m Message) ConversationKey() ConversationKey {
	return NewConversationKey(m.Channel, m.Conversation.ID)
}

// Reply is one message on its way out.
type Reply struct {
	// Key is the idempotency key of the delivery: sending twice with one key must not show twice.
	Key          string       `json:"key"`
	Channel      string       `json:"channel"`
	Conversation Conversation `json:"conversation"`
	ReplyTo      string       `json:"reply_to,omitempty"`
	Text         string       `json:"text"` // Markdown
	// PossibleDuplicate marks a resend after an unknown outcome.
	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`
	// Resume is the channel's own word for what it has delivered of the message under way; empty: nothing of it.
	Resume string `json:"resume,omitempty"`
	// Answers is the inbox row of the first message that it answers; 0 where it answers none, like a word before the answer.
	Answers int64 `json:"answers,omitempty"`
	// Amends is the key of an earlier reply of the same turn, to which the text is added and whose buttons go, where the channel
	// can do that; elsewhere nothing is sent.
	Amends string `json:"amends,omitempty"`
	// Attachments are files in the media store that go with the text.
	Attachments []Attachment `json:"attachments,omitempty"`
	// Buttons are choices below the text, at most MaxButtons; a channel without buttons shows the text alone, which has to do.
	Buttons []Button `json:"buttons,omitempty"`
}

// ConversationKey returns the key of the conversation that it goes to.
func (r Reply) ConversationKey() ConversationKey {
	return NewConversationKey(r.Channel, r.Conversation.ID)
}

// Button is one choice below a reply.
type Button struct {
	Text  string      `json:"text"`  // at most 64 code points
	Value string      `json:"value"` // what a press comes back with; at most 64 bytes
	Style ButtonStyle `json:"style,omitempty"`
}

// ButtonStyle is what a button is for.
type ButtonStyle string

// The styles of a button.
const (
	ButtonPrimary ButtonStyle = "primary" // agrees
	ButtonDanger  ButtonStyle = "danger"  // refuses or destroys
)

// MaxButtons bounds the buttons of one reply.
const MaxButtons = 8
