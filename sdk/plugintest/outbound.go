package plugintest

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Send sends one message and returns its result, with the plugin's message about a failure as the error.
func (h *Host) Send(s channel.Send) (channel.Sent, error) {
	h.t.Helper()
	r, err := h.channel.Send(context.Background(), &channelv1.SendRequest{
		IdempotencyKey: s.Key, Conversation: toWire(s.Conversation), ReplyTo: s.ReplyTo, Text: s.Text,
		Format: format(s.Markdown), Draft: s.Draft, PossibleDuplicate: s.PossibleDuplicate,
		Attachments: attachments(s.Attachments), Buttons: buttons(s.Buttons), Resume: s.Resume,
	})
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, err
	}
	sent := channel.Sent{
		Outcome: channel.Outcome(r.Outcome), MessageIDs: r.MessageIds, ThreadID: r.ThreadId,
		RetryAfter: r.RetryAfter.AsDuration(), Resume: r.Resume,
	}
	if r.Refused {
		sent.Outcome = channel.OutcomeRefused
	}
	if r.Detail != "" {
		return sent, errors.New(r.Detail)
	}
	return sent, nil
}

// Edit edits one message and reports whether the edit was applied.
func (h *Host) Edit(e channel.Edit) (applied bool, err error) {
	h.t.Helper()
	r, err := h.channel.Edit(context.Background(), &channelv1.EditRequest{
		Conversation: toWire(e.Conversation), MessageId: e.MessageID, Revision: e.Revision, Text: e.Text,
		Format: format(e.Markdown), Final: e.Final, Buttons: buttons(e.Buttons),
	})
	return r.GetApplied(), err
}

// Typing shows or hides that Flynn is typing.
func (h *Host) Typing(t channel.Typing) error {
	h.t.Helper()
	_, err := h.channel.SetTyping(context.Background(), &channelv1.SetTypingRequest{
		Conversation: toWire(t.Conversation), Typing: t.On, Ttl: durationpb.New(t.TTL),
	})
	return err
}

// Delete removes a sent message.
func (h *Host) Delete(c channel.Conversation, messageID string) error {
	h.t.Helper()
	_, err := h.channel.Delete(context.Background(), &channelv1.DeleteRequest{Conversation: toWire(c), MessageId: messageID})
	return err
}

// React adds or removes a reaction.
func (h *Host) React(r channel.Reaction) error {
	h.t.Helper()
	_, err := h.channel.React(context.Background(), &channelv1.ReactRequest{
		Conversation: toWire(r.Conversation), MessageId: r.MessageID, Reaction: r.Reaction, Remove: r.Remove,
	})
	return err
}

// Reconcile asks for the outcome of a send.
func (h *Host) Reconcile(r channel.Reconcile) (channel.Sent, error) {
	h.t.Helper()
	out, err := h.channel.Reconcile(context.Background(), &channelv1.ReconcileRequest{
		IdempotencyKey: r.Key, Conversation: toWire(r.Conversation), Text: r.Text,
	})
	return channel.Sent{Outcome: channel.Outcome(out.GetOutcome()), MessageIDs: out.GetMessageIds()}, err
}

// Fetch reads an attachment to its end.
func (h *Host) Fetch(handle string) ([]byte, error) {
	h.t.Helper()
	ctx, cancel := h.deadline()
	defer cancel()
	return wire.Fetch(ctx, h.channel, handle)
}

// Upload passes media to the plugin and returns its handle. Only the name and type of m are used.
func (h *Host) Upload(m channel.Media, body []byte) (handle string, err error) {
	h.t.Helper()
	ctx, cancel := h.deadline()
	defer cancel()
	return wire.Upload(ctx, h.channel, &channelv1.MediaHead{MediaType: m.Type, Name: m.Name}, body)
}

func toWire(c channel.Conversation) *channelv1.Conversation {
	kinds := map[channel.ConversationKind]channelv1.ConversationKind{
		channel.Group:  channelv1.ConversationKind_CONVERSATION_KIND_GROUP,
		channel.DM:     channelv1.ConversationKind_CONVERSATION_KIND_DM,
		channel.Thread: channelv1.ConversationKind_CONVERSATION_KIND_THREAD,
	}
	return &channelv1.Conversation{Id: c.ID, Kind: kinds[c.Kind], Parent: c.Parent}
}

func attachments(list []channel.Attachment) []*channelv1.Attachment {
	var out []*channelv1.Attachment
	for _, a := range list {
		out = append(out, &channelv1.Attachment{Handle: a.Handle, Name: a.Name, MediaType: a.Type, Size: uint64(a.Size)})
	}
	return out
}

func buttons(list []channel.Button) []*channelv1.Button {
	var out []*channelv1.Button
	for _, b := range list {
		out = append(out, &channelv1.Button{Text: b.Text, Value: b.Value, Style: channelv1.ButtonStyle(b.Style)})
	}
	return out
}

func format(markdown bool) channelv1.TextFormat {
	if markdown {
		return channelv1.TextFormat_TEXT_FORMAT_MARKDOWN
	}
	return channelv1.TextFormat_TEXT_FORMAT_PLAIN
}
