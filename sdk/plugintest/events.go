package plugintest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// stream is one Receive stream with a goroutine that reads it.
type stream struct {
	grpc   grpc.BidiStreamingClient[channelv1.ReceiveRequest, channelv1.ReceiveResponse]
	events chan *channelv1.Event // closed at the end of the stream
	cancel context.CancelFunc
}

// open begins a stream; the plugin sends again whatever was not acked. A plugin that has ended meanwhile gives a
// stream without events.
func (h *Host) open() {
	ctx, cancel := context.WithCancel(context.Background())
	h.stream = &stream{events: make(chan *channelv1.Event, h.config.Window), cancel: cancel}
	open := &channelv1.Open{StreamId: "test", Window: uint32(h.config.Window)}
	var err error
	if h.stream.grpc, err = h.channel.Receive(ctx); err == nil {
		err = h.stream.grpc.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Open{Open: open}})
	}
	if err == nil {
		err = h.stream.grpc.Send(grease())
	}
	if err != nil {
		h.t.Logf("open the event stream: %v", err)
		close(h.stream.events)
		return
	}
	go h.stream.read(ctx)
}

// grease is a frame of a protocol to come. A plugin has to ignore it, and does so for ever only if it is tried all the time.
func grease() *channelv1.ReceiveRequest {
	frame := &channelv1.ReceiveRequest{}
	frame.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	return frame
}

// read passes events on until the stream ends.
func (s *stream) read(ctx context.Context) {
	defer close(s.events)
	for {
		frame, err := s.grpc.Recv()
		if err != nil {
			return
		}
		if e := frame.GetEvent(); e != nil {
			select {
			case s.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}
}

// closeStream ends the stream, if there is one, and waits for its reader.
func (h *Host) closeStream() {
	if h.stream == nil {
		return
	}
	h.stream.cancel()
	for range h.stream.events { // until the reader is gone
	}
	h.stream = nil
}

// Reconnect drops the stream and opens another one. Events that were not acked come again, in order.
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

// EventWithin waits for the next event no longer than d.
func (h *Host) EventWithin(d time.Duration) (channel.Event, bool) {
	h.t.Helper()
	select {
	case e, ok := <-h.stream.events:
		if !ok {
			return channel.Event{}, false
		}
		h.seen = e.Seq
		return event(e), true
	case <-time.After(d):
		return channel.Event{}, false
	}
}

// Ack accepts every event that Event has returned so far.
func (h *Host) Ack() {
	h.t.Helper()
	h.ack(nil)
}

// Reject refuses the event that Event returned last, as a host does with what breaks the contract, and accepts those before.
func (h *Host) Reject(why string) {
	h.t.Helper()
	h.ack([]*channelv1.Rejection{{Seq: h.seen, Reason: why}})
}

func (h *Host) ack(rejected []*channelv1.Rejection) {
	h.t.Helper()
	ack := &channelv1.Ack{Seq: h.seen, Rejected: rejected}
	if err := h.stream.grpc.Send(&channelv1.ReceiveRequest{Frame: &channelv1.ReceiveRequest_Ack{Ack: ack}}); err != nil {
		h.t.Fatalf("ack %d: %v", h.seen, err)
	}
}

// event turns an event of the wire back into what the author wrote.
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
