package message

import (
	"strconv"
	"strings"
)

// SenderKey names a sender across channels, as rules, the store and the API do: "instance:platform-id". Names of channel instances have no
// colon; the ids of a platform may.
type SenderKey string

// NewSenderKey returns the key of a sender of a channel instance.
func NewSenderKey(instance, id string) SenderKey { return SenderKey(instance + ":" + id) }

// Cut returns the parts of the key. Text without a colon is no key: it is an instance without an id, and ok is false.
func (k SenderKey) Cut() (instance, id string, ok bool) { return strings.Cut(string(k), ":") }

// Channel returns the name of the channel instance.
func (k SenderKey) Channel() string { instance, _, _ := k.Cut(); return instance }

// ID returns the platform's id of the sender.
func (k SenderKey) ID() string { _, id, _ := k.Cut(); return id }

// Unverified reports whether the id is a name that anybody could have taken, whatever the channel proves about others: it begins with "?".
func (k SenderKey) Unverified() bool { return strings.HasPrefix(k.ID(), "?") }

// ConversationKey names a conversation across channels: "instance:platform-id". Messages of one key are handled in order.
type ConversationKey string

// NewConversationKey returns the key of a conversation of a channel instance.
func NewConversationKey(instance, id string) ConversationKey {
	return ConversationKey(instance + ":" + id)
}

// Cut returns the parts of the key. Text without a colon is no key: it is an instance without an id, and ok is false.
func (k ConversationKey) Cut() (instance, id string, ok bool) { return strings.Cut(string(k), ":") }

// Channel returns the name of the channel instance.
func (k ConversationKey) Channel() string { instance, _, _ := k.Cut(); return instance }

// ID returns the platform's id of the conversation.
func (k ConversationKey) ID() string { _, id, _ := k.Cut(); return id }

// The keys of places, which share a session for each agent. A group or a thread is a place by its ConversationKey. Names of channel
// instances have neither '@' nor '/', so no conversation can take the key of a private place, whatever its platform calls it.

// LinkPlace is the place of the private chats that an owner has linked.
func LinkPlace(name string) string { return "@" + name }

// SenderPlace is the place of a sender's private chats.
func SenderPlace(k SenderKey) string { return k.Channel() + "/dm:" + k.ID() }

// ChatPlace is the place of one private chat, where each is a place of its own.
func ChatPlace(k ConversationKey) string { return k.Channel() + "/chat:" + k.ID() }

// SessionKey names a session: "place:agent" for the first of an agent in a place, "place:agent#2" for the second. What begins a new one
// begins a new epoch of the place.
type SessionKey struct {
	Place string
	Agent string
	Epoch int // from 1
}

// ParseSession reads the key of a session. That of a delegated turn, which ends in the ids of turns, has the place of the session that
// delegated it. Names of agents have neither ':' nor '#', so the end is told apart from whatever a platform calls
// a conversation. Text that is no key becomes an Agent without a Place.
func ParseSession(text string) SessionKey {
	i := strings.LastIndexByte(text, ':')
	k := SessionKey{Place: text[:max(i, 0)], Epoch: 1}
	agent, number, _ := strings.Cut(text[i+1:], "#")
	k.Agent = agent
	if epoch, err := strconv.Atoi(number); err == nil && epoch > 1 {
		k.Epoch = epoch
	}
	return k
}

// String is what ParseSession reads.
func (k SessionKey) String() string {
	if k.Epoch < 2 {
		return k.Place + ":" + k.Agent
	}
	return k.Place + ":" + k.Agent + "#" + strconv.Itoa(k.Epoch)
}

// Home is the key of the first session of the same agent in the same place. Workspaces and sandboxes are called by it: they stay when a new
// session begins.
func (k SessionKey) Home() string { return SessionKey{Place: k.Place, Agent: k.Agent}.String() }
