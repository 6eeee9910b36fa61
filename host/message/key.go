package message

import (
	"strconv"
	"strings"
)

// SenderKey names a sender across channels: "instance:platform-id". Rules, the store and the API use this form. Instance names contain
// no colon; platform ids may.
type SenderKey string

// NewSenderKey returns the key of a sender of a channel instance.
func NewSenderKey(instance, id string) SenderKey { return SenderKey(instance + ":" + id) }

// Cut returns the parts of the key. If it has no colon, ok is false and id is empty.
func (k SenderKey) Cut() (instance, id string, ok bool) { return strings.Cut(string(k), ":") }

// Channel returns the name of the channel instance.
func (k SenderKey) Channel() string { instance, _, _ := k.Cut(); return instance }

// ID returns the platform's id of the sender.
func (k SenderKey) ID() string { _, id, _ := k.Cut(); return id }

// Unverified reports whether anybody could have taken the id, whatever the channel proves about others: it begins with "?".
func (k SenderKey) Unverified() bool { return strings.HasPrefix(k.ID(), "?") }

// ConversationKey names a conversation across channels: "instance:platform-id". Messages of one key are handled in order.
type ConversationKey string

// NewConversationKey returns the key of a conversation of a channel instance.
func NewConversationKey(instance, id string) ConversationKey {
	return ConversationKey(instance + ":" + id)
}

// Cut returns the parts of the key. If it has no colon, ok is false and id is empty.
func (k ConversationKey) Cut() (instance, id string, ok bool) { return strings.Cut(string(k), ":") }

// Channel returns the name of the channel instance.
func (k ConversationKey) Channel() string { instance, _, _ := k.Cut(); return instance }

// ID returns the platform's id of the conversation.
func (k ConversationKey) ID() string { _, id, _ := k.Cut(); return id }

// Keys of conversation scopes, which share a session for each agent. The key of a group or a thread is its ConversationKey. Names of
// channel instances contain neither '@' nor '/', so no conversation can have the key of a private scope, whatever its platform calls
// it.

// LinkScope returns the scope of the private chats that an owner has linked.
func LinkScope(name string) string { return "@" + name }

// SenderScope returns the scope of a sender's private chats.
func SenderScope(k SenderKey) string { return k.Channel() + "/dm:" + k.ID() }

// ChatScope returns the scope of a single private chat, if each has its own.
func ChatScope(k ConversationKey) string { return k.Channel() + "/chat:" + k.ID() }

// SessionKey names a session: "scope:agent" for the first one of an agent in a conversation scope, "scope:agent#2" for the second. A
// new session begins a new epoch of its scope.
type SessionKey struct {
	Scope string
	Agent string
	Epoch int // from 1
}

// ParseSession parses the key of a session. The key of a delegated turn's session, which ends in turn ids, yields the scope of the
// session that delegated it. Agent names contain neither ':' nor '#', so the end is distinguished from any platform's conversation id.
// Other text yields an Agent without a Scope.
func ParseSession(text string) SessionKey {
	i := strings.LastIndexByte(text, ':')
	k := SessionKey{Scope: text[:max(i, 0)], Epoch: 1}
	agent, number, _ := strings.Cut(text[i+1:], "#")
	k.Agent = agent
	if epoch, err := strconv.Atoi(number); err == nil && epoch > 1 {
		k.Epoch = epoch
	}
	return k
}

// String returns the text that ParseSession parses.
func (k SessionKey) String() string {
	if k.Epoch < 2 {
		return k.Scope + ":" + k.Agent
	}
	return k.Scope + ":" + k.Agent + "#" + strconv.Itoa(k.Epoch)
}

// Home returns the key of the first session of the same agent in the same scope. It names workspaces and sandboxes, which stay when a
// new session begins.
func (k SessionKey) Home() string { return SessionKey{Scope: k.Scope, Agent: k.Agent}.String() }
