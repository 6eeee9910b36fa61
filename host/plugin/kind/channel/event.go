package channel

import (
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// EventKind says what happened on a platform.
type EventKind string

// The kinds of event.
const (
	EventMessage    EventKind = "message"
	EventEdit       EventKind = "edit"       // the text of Target changed
	EventDelete     EventKind = "delete"     // Target was removed
	EventReaction   EventKind = "reaction"   // Text is the reaction to Target
	EventCommand    EventKind = "command"    // Text is a platform command with its arguments
	EventButton     EventKind = "button"     // Text is the value of a button of Target
	EventMembership EventKind = "membership" // Text is "join" or "leave"
)

// Event is an event on a platform. Its identifiers are valid by package bounds, and its message is bounded: neither is checked again.
type Event struct {
	message.Message
	Kind   EventKind
	Target string // message that an edit, deletion, reaction or button is about
}

// maxHandle is the most bytes of an attachment's handle.
const maxHandle = 1024

var eventKinds = map[channelv1.EventKind]EventKind{
	channelv1.EventKind_EVENT_KIND_MESSAGE:    EventMessage,
	channelv1.EventKind_EVENT_KIND_EDIT:       EventEdit,
	channelv1.EventKind_EVENT_KIND_DELETE:     EventDelete,
	channelv1.EventKind_EVENT_KIND_REACTION:   EventReaction,
	channelv1.EventKind_EVENT_KIND_COMMAND:    EventCommand,
	channelv1.EventKind_EVENT_KIND_BUTTON:     EventButton,
	channelv1.EventKind_EVENT_KIND_MEMBERSHIP: EventMembership,
}

// errSkip marks events that are acked and silently dropped: Flynn's own, and kinds of a later protocol.
var errSkip = errors.New("nothing for the host")

// eventFromWire checks and bounds an event of a plugin and makes a message of it. The SDK checks the identifiers too, so an event that is
// refused here comes from a plugin without the SDK.
//
// The press of a button and a command of the platform are always addressed to Flynn, like a private message.
func eventFromWire(instance string, e *channelv1.Event) (Event, error) {
	what, known := eventKinds[e.GetKind()]
	if !known || e.GetSender().GetIsSelf() {
		return Event{}, errSkip
	}
	if err := bounds.Event(e); err != nil {
		return Event{}, err
	}
	name := kind.Text(e.GetSender().GetName(), kind.MaxName)
	conversation := conversationFromWire(e.GetConversation())
	addressed := e.GetAddressed() || conversation.Kind == message.DM || what == EventButton || what == EventCommand
	return Event{
		Kind: what, Target: e.GetTargetId(),
		Message: message.Message{
			Channel:      instance,
			EventID:      e.GetEventId(),
			Conversation: conversation,
			Sender: message.Sender{
				ID: e.GetSender().GetId(), Name: name, Account: e.GetSender().GetAccount(), Bot: e.GetSender().GetIsBot(),
				Roles: e.GetSender().GetRoles(),
			},
			Text:        e.GetText(),
			Addressed:   addressed,
			Mentioned:   e.GetMentioned(),
			Edited:      what == EventEdit,
			ReplyTo:     e.GetReplyTo(),
			Attachments: attachmentsFromWire(e.GetAttachments()),
			SentAt:      sentAt(e),
		}.Bounded(),
	}, nil
}

func sentAt(e *channelv1.Event) time.Time {
	if e.GetSentAt() == nil || !e.GetSentAt().IsValid() {
		return time.Time{}
	}
	return e.GetSentAt().AsTime()
}

func conversationFromWire(c *channelv1.Conversation) message.Conversation {
	out := message.Conversation{ID: c.GetId(), Kind: message.Group, Parent: c.GetParent()}
	switch c.GetKind() {
	case channelv1.ConversationKind_CONVERSATION_KIND_DM:
		out.Kind = message.DM
	case channelv1.ConversationKind_CONVERSATION_KIND_THREAD:
		out.Kind = message.Thread
	}
	return out
}

func conversationToWire(c message.Conversation) *channelv1.Conversation {
	kinds := map[message.Kind]channelv1.ConversationKind{
		message.DM:     channelv1.ConversationKind_CONVERSATION_KIND_DM,
		message.Group:  channelv1.ConversationKind_CONVERSATION_KIND_GROUP,
		message.Thread: channelv1.ConversationKind_CONVERSATION_KIND_THREAD,
	}
	return &channelv1.Conversation{Id: c.ID, Kind: kinds[c.Kind], Parent: c.Parent}
}

// attachmentsFromWire drops attachments with an invalid handle.
func attachmentsFromWire(list []*channelv1.Attachment) []message.Attachment {
	var out []message.Attachment
	for _, a := range list {
		if a.GetHandle() == "" || len(a.GetHandle()) > maxHandle {
			continue
		}
		out = append(out, message.Attachment{
			Handle: a.GetHandle(), Name: kind.Text(a.GetName(), kind.MaxName), Type: a.GetMediaType(), Size: int64(min(a.GetSize(), 1<<50)),
		})
	}
	return out
}

// attachmentsToWire returns the uploaded attachments.
func attachmentsToWire(list []message.Attachment) []*channelv1.Attachment {
	var out []*channelv1.Attachment
	for _, a := range list {
		if a.Handle != "" {
			out = append(out, &channelv1.Attachment{Handle: a.Handle, Name: valid(a.Name), MediaType: a.Type, Size: uint64(max(a.Size, 0))})
		}
	}
	return out
}
