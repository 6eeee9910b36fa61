package channel

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// The tables below map our constants to those of the protocol; other values become the protocol's zero.
var (
	conversationKinds = [...]channelv1.ConversationKind{
		Group:  channelv1.ConversationKind_CONVERSATION_KIND_GROUP,
		DM:     channelv1.ConversationKind_CONVERSATION_KIND_DM,
		Thread: channelv1.ConversationKind_CONVERSATION_KIND_THREAD,
	}
	outcomes = [...]channelv1.Outcome{
		OutcomeSent:      channelv1.Outcome_OUTCOME_SENT,
		OutcomeDuplicate: channelv1.Outcome_OUTCOME_DUPLICATE,
		OutcomeNotSent:   channelv1.Outcome_OUTCOME_NOT_SENT,
		OutcomeUnknown:   channelv1.Outcome_OUTCOME_UNKNOWN,
		OutcomeRefused:   channelv1.Outcome_OUTCOME_NOT_SENT, // with refused
	}
)

// utf8 makes text of a platform valid UTF-8, because an invalid string would make the whole proto3 message invalid.
func utf8(s string) string { return process.UTF8(s) }

// eventToWire does not repair malformed identifiers, because two of them could become equal; check refuses them.
func eventToWire(e Event) *channelv1.Event {
	wire := &channelv1.Event{
		EventId: e.ID,
		// The protocol counts kinds from 1, in the same order.
		Kind:         channelv1.EventKind(e.Kind + 1),
		Conversation: conversationToWire(e.Conversation),
		Sender: &channelv1.Sender{
			Id: e.Sender.ID, Name: utf8(e.Sender.Name), Account: e.Sender.Account,
			IsSelf: e.Sender.Self, IsBot: e.Sender.Bot, Roles: validAll(e.Sender.Roles),
		},
		Text:        utf8(e.Text),
		Addressed:   e.Addressed,
		Mentioned:   e.Mentioned,
		ReplyTo:     e.ReplyTo,
		TargetId:    e.TargetID,
		Attachments: attachmentsToWire(e.Attachments),
		RawJson:     e.RawJSON,
	}
	wire.Conversation.Id, wire.Conversation.Parent = e.Conversation.ID, e.Conversation.Parent
	for _, n := range e.Entities {
		wire.Entities = append(wire.Entities, &channelv1.Entity{
			Kind: utf8(n.Kind), Offset: uint32(n.Offset), Length: uint32(n.Length), Value: utf8(n.Value),
		})
	}
	if !e.SentAt.IsZero() {
		wire.SentAt = timestamppb.New(e.SentAt)
	}
	return wire
}

func conversationToWire(c Conversation) *channelv1.Conversation {
	wire := &channelv1.Conversation{Id: utf8(c.ID), Parent: utf8(c.Parent)}
	if c.Kind >= 0 && int(c.Kind) < len(conversationKinds) {
		wire.Kind = conversationKinds[c.Kind]
	}
	return wire
}

func conversationFromWire(c *channelv1.Conversation) Conversation {
	out := Conversation{ID: c.GetId(), Parent: c.GetParent()}
	switch c.GetKind() {
	case channelv1.ConversationKind_CONVERSATION_KIND_DM:
		out.Kind = DM
	case channelv1.ConversationKind_CONVERSATION_KIND_THREAD:
		out.Kind = Thread
	}
	return out
}

func attachmentsToWire(list []Attachment) []*channelv1.Attachment {
	var wire []*channelv1.Attachment
	for _, a := range list {
		wire = append(wire, &channelv1.Attachment{
			Handle: utf8(a.Handle), Name: utf8(a.Name), MediaType: utf8(a.Type), Size: uint64(max(a.Size, 0)),
		})
	}
	return wire
}

func attachmentsFromWire(list []*channelv1.Attachment) []Attachment {
	var out []Attachment
	for _, a := range list {
		out = append(out, Attachment{Handle: a.Handle, Name: a.Name, Type: a.MediaType, Size: int64(a.Size)})
	}
	return out
}

func sendFromWire(r *channelv1.SendRequest) Send {
	return Send{
		Key:               r.GetIdempotencyKey(),
		Conversation:      conversationFromWire(r.GetConversation()),
		ReplyTo:           r.GetReplyTo(),
		Text:              r.GetText(),
		Markdown:          r.GetFormat() == channelv1.TextFormat_TEXT_FORMAT_MARKDOWN,
		Attachments:       attachmentsFromWire(r.GetAttachments()),
		Draft:             r.GetDraft(),
		PossibleDuplicate: r.GetPossibleDuplicate(),
		Buttons:           buttonsFromWire(r.GetButtons()),
		Resume:            r.GetResume(),
	}
}

func buttonsFromWire(list []*channelv1.Button) []Button {
	var out []Button
	for _, b := range list {
		out = append(out, Button{Text: b.GetText(), Value: b.GetValue(), Style: ButtonStyle(b.GetStyle())})
	}
	return out
}

func sentToWire(s Sent, err error) *channelv1.SendResponse {
	wire := &channelv1.SendResponse{
		Outcome:    outcomeToWire(s.Outcome, err),
		MessageIds: validAll(s.MessageIDs),
		ThreadId:   utf8(s.ThreadID),
		RetryAfter: durationToWire(s.RetryAfter),
		Refused:    s.Outcome == OutcomeRefused,
		Resume:     utf8(s.Resume),
	}
	if err != nil {
		wire.Detail = utf8(err.Error())
	}
	return wire
}

func outcomeToWire(o Outcome, err error) channelv1.Outcome {
	switch {
	case o > OutcomeUnset && int(o) < len(outcomes):
		return outcomes[o]
	case err == nil && o == OutcomeUnset:
		return channelv1.Outcome_OUTCOME_SENT
	default:
		return channelv1.Outcome_OUTCOME_UNKNOWN
	}
}

func validAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = utf8(s)
	}
	return out
}

// durationToWire returns nil for zero, which the wire leaves out.
func durationToWire(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
