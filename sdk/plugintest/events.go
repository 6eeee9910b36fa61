package plugintest

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// open begins a stream; the plugin sends again everything that was not acked. If the plugin has ended, the stream has no events.
func (h *Host) open() {
	h.stream = wire.OpenLeased(context.Background(), h.channel, uint32(h.config.Window), h.config.Leases)
	// A frame of a future protocol, which the plugin has to ignore. If the stream has ended, waiting for events reports it.
	_ = h.stream.Send(wire.Grease(&channelv1.ReceiveRequest{}))
}

// closeStream ends the stream, if there is one.
func (h *Host) closeStream() {
	if h.stream != nil {
		h.stream.Close()
		h.stream = nil
	}
}

// Reconnect closes the stream and opens another one. Events that were not acked come again, in order.
func (h *Host) Reconnect() {
	h.t.Helper()
	h.closeStream()
	h.open()
}

// Event waits for the next event. It is not acked.
func (h *Host) Event() channel.Event {
	h.t.Helper()
	e, ok := h.EventWithin(h.config.Timeout)
	if !ok {
		h.t.Fatal("no event came")
	}
	return e
}

// EventWithin waits for the next event for at most d.
func (h *Host) EventWithin(d time.Duration) (channel.Event, bool) {
	h.t.Helper()
	e, err := h.stream.Next(context.Background(), d)
	if err != nil {
		h.t.Logf("wait for an event: %v", err)
		return channel.Event{}, false
	}
	h.seen = e.Seq
	return event(e), true
}

// Ack accepts every event that Event has returned so far.
func (h *Host) Ack() {
	h.t.Helper()
	h.ack()
}

// Reject refuses the event that Event returned last, as a host refuses an event that violates the contract, and accepts those before.
func (h *Host) Reject(why string) {
	h.t.Helper()
	h.ack(&channelv1.Rejection{Seq: h.seen, Reason: why})
}

func (h *Host) ack(rejected ...*channelv1.Rejection) {
	h.t.Helper()
	if err := h.stream.Ack(h.seen, rejected...); err != nil {
		h.t.Fatalf("ack %d: %v", h.seen, err)
	}
}

// event converts an event of the protocol back to the author's.
func event(e *channelv1.Event) channel.Event {
	out := channel.Event{
		ID:           e.EventId,
		Kind:         channel.EventKind(e.Kind - 1),
		Conversation: conversation(e.Conversation),
		Sender: channel.Sender{
			ID: e.Sender.GetId(), Name: e.Sender.GetName(), Account: e.Sender.GetAccount(),
			Self: e.Sender.GetIsSelf(), Bot: e.Sender.GetIsBot(), Roles: e.Sender.GetRoles(),
		},
		Text: e.Text, Addressed: e.Addressed, Mentioned: e.Mentioned, ReplyTo: e.ReplyTo, TargetID: e.TargetId, RawJSON: e.RawJson,
	}
	for _, n := range e.Entities {
		out.Entities = append(out.Entities, channel.Entity{
			Kind: n.Kind, Offset: int(n.Offset), Length: int(n.Length), Value: n.Value,
		})
	}
	for _, a := range e.Attachments {
		out.Attachments = append(out.Attachments, channel.Attachment{
			Handle: a.Handle, Name: a.Name, Type: a.MediaType, Size: int64(a.Size),
		})
	}
	if e.SentAt != nil {
		out.SentAt = e.SentAt.AsTime()
	}
	return out
}

func conversation(c *channelv1.Conversation) channel.Conversation {
	kinds := map[channelv1.ConversationKind]channel.ConversationKind{
		channelv1.ConversationKind_CONVERSATION_KIND_DM:     channel.DM,
		channelv1.ConversationKind_CONVERSATION_KIND_THREAD: channel.Thread,
	}
	return channel.Conversation{ID: c.GetId(), Kind: kinds[c.GetKind()], Parent: c.GetParent()}
}
