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

// UnverifiedOn reports whether the key is of an unverified sender of a channel instance.
func (k SenderKey) UnverifiedOn(instance string) bool {
	return k.Channel() == instance && k.Unverified()
}

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

// ConsoleConversation returns the id of a conversation that a sender has on ConsoleChannel.
func ConsoleConversation(k SenderKey, name string) string { return string(k) + "~" + name }

// ConsoleOwner returns the sender to whom a conversation of ConsoleChannel belongs; ok is false for an id of another form. Names of
// conversations contain no "~", so that no sender's conversations begin like those of another one.
func ConsoleOwner(conversation string) (k SenderKey, ok bool) {
	i := strings.LastIndexByte(conversation, '~')
	if i <= 0 || i == len(conversation)-1 {
		return "", false
	}
	return SenderKey(conversation[:i]), true
}

// Keys of conversation scopes, which share a session for each agent. The key of a group or a thread is its ConversationKey. Names of
// channel instances contain neither '@' nor '/', so no conversation can have the key of a private scope, whatever its platform calls
// it.

// LinkScope returns the scope of the private chats that an owner has linked.
func LinkScope(name string) string { return "@" + name }

// SenderScope returns the scope of a sender's private chats.
func SenderScope(k SenderKey) string { return k.Channel() + "/dm:" + k.ID() }

// ChatScope returns the scope of a single private chat, if each has its own.
func ChatScope(k ConversationKey) string { return k.Channel() + "/chat:" + k.ID() }

// SessionKey names a session: "scope:agent" for the first one of an agent in a conversation scope, "scope:agent#2" for the second.
type SessionKey string

// Child returns the key of the session of a delegated turn.
func (k SessionKey) Child(turn string) SessionKey { return k + "/" + SessionKey(turn) }

// Session is what the key of a session says. A new session begins a new epoch of its scope.
type Session struct {
	Scope string
	Agent string
	Epoch int // from 1
}

// Parse returns what the key says. The key of a delegated turn's session yields the scope of the session that delegated it. Agent names
// contain neither ':' nor '#', so the end is distinguished from any platform's conversation id. Other text yields an Agent without a Scope.
func (k SessionKey) Parse() Session {
	scope, end, _ := cutLast(string(k))
	agent, number, _ := strings.Cut(end, "#")
	s := Session{Scope: scope, Agent: agent, Epoch: 1}
	if epoch, err := strconv.Atoi(number); err == nil && epoch > 1 {
		s.Epoch = epoch
	}
	return s
}

func cutLast(key string) (scope, end string, ok bool) {
	i := strings.LastIndexByte(key, ':')
	return key[:max(i, 0)], key[i+1:], i >= 0
}

// Key returns the key of the session.
func (s Session) Key() SessionKey {
	key := SessionKey(s.Workspace())
	if s.Epoch < 2 {
		return key
	}
	return key + "#" + SessionKey(strconv.Itoa(s.Epoch))
}

// Workspace returns the key of the session's workspace.
func (s Session) Workspace() WorkspaceKey { return WorkspaceKey(s.Scope + ":" + s.Agent) }

// WorkspaceKey names the workspace and the sandbox of an agent in a scope, which stay when a new session begins: "scope:agent".
type WorkspaceKey string

// Cut returns the parts of the key. If it has no colon, ok is false: then it names a workspace without a conversation.
func (k WorkspaceKey) Cut() (scope, agent string, ok bool) { return cutLast(string(k)) }

// Scope returns the conversation scope.
func (k WorkspaceKey) Scope() string { scope, _, _ := k.Cut(); return scope }

// Agent returns the name of the agent; empty for a workspace without a conversation.
func (k WorkspaceKey) Agent() string {
	_, agent, ok := k.Cut()
	if !ok {
		return ""
	}
	return agent
}
