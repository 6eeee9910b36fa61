package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

const (
	sendTimeout = 30 * time.Second
	receiptWait = 3 * time.Second
)

// idOf makes the id of a message out of its key, in the form that WhatsApp's own client uses. A message that is sent twice
// has the same id, and phones show it once.
func idOf(key string) string {
	sum := sha256.Sum256([]byte("flynn\x00" + key))
	return whatsmeow.WebMessageIDPrefix + strings.ToUpper(hex.EncodeToString(sum[:9]))
}

// Send implements line. Text and media are a message each.
func (l *linked) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	to, ok := jidOf(s.Conversation.ID)
	if !ok {
		return channel.Sent{Outcome: channel.OutcomeRefused}, fmt.Errorf("%q is not a conversation of WhatsApp", s.Conversation.ID)
	}
	d, err := l.current()
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: soon}, err
	}
	list, err := messages(s, quote(ctx, d, s))
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: permanent}, err
	}
	number, _ := d.Own()
	return channel.Series(ctx, s, len(list), func(ctx context.Context, i int) (string, error) {
		id := idOf(partKey(s.Key, i))
		if err := sendOne(ctx, d, to, list[i], id); err != nil {
			return "", err
		}
		name := ref{chat: to, id: id, sender: number}.String()
		if len(s.Buttons) > 0 && i == 0 {
			l.choices.offer(s.Conversation.ID, name, s.Buttons)
		}
		return name, nil
	}, outcomeOf)
}

func sendOne(ctx context.Context, d *device, to types.JID, m *waE2E.Message, id string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return d.Send(ctx, to, m, id)
}

// outcomeOf returns the outcome for an error of the library: a message that never reached the server, or that it refused, was not sent.
func outcomeOf(err error) (channel.Sent, error) {
	switch {
	case errors.Is(err, whatsmeow.ErrNotConnected), errors.Is(err, whatsmeow.ErrNotLoggedIn):
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: soon}, err
	case errors.Is(err, whatsmeow.ErrServerReturnedError):
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: later}, fmt.Errorf("WhatsApp refuses the message: %w", err)
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, err
}

// messages returns the messages of a send. Buttons are written as text, because WhatsApp does not show those of linked devices.
func messages(s channel.Send, quoted *waE2E.ContextInfo) ([]*waE2E.Message, error) {
	text := s.Text
	if s.Markdown {
		text = markdown.Render(text, markdown.WhatsApp)
	}
	text = written(text, s.Buttons)
	var list []*waE2E.Message
	for _, a := range s.Attachments {
		m, err := parseHandle(a.Handle)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if len(list) > 0 && utf8.RuneCountInString(text) <= maxCaption && caption(list[0], text) {
		text = ""
	}
	if strings.TrimSpace(text) != "" {
		list = append([]*waE2E.Message{{ExtendedTextMessage: &waE2E.ExtendedTextMessage{Text: proto.String(text), ContextInfo: quoted}}}, list...)
	}
	if len(list) == 0 {
		return nil, errors.New("there is nothing to send")
	}
	return list, nil
}

// caption adds text to a medium that can have a caption.
func caption(m *waE2E.Message, text string) bool {
	switch {
	case m.ImageMessage != nil:
		m.ImageMessage.Caption = &text
	case m.VideoMessage != nil:
		m.VideoMessage.Caption = &text
	case m.DocumentMessage != nil:
		m.DocumentMessage.Caption = &text
	default:
		return false
	}
	return true
}

// quote names the message that is answered, in groups; between two it is plain.
func quote(ctx context.Context, d *device, s channel.Send) *waE2E.ContextInfo {
	r, ok := parseRef(s.ReplyTo)
	if !ok || r.chat.Server != types.GroupServer {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return &waE2E.ContextInfo{
		StanzaID: proto.String(r.id), Participant: proto.String(d.NameIn(ctx, r.chat, r.sender).String()),
		QuotedMessage: &waE2E.Message{Conversation: proto.String("")},
	}
}

// Reconcile implements line: a receipt proves that a message arrived. Silence proves nothing, but a resend has the same id.
func (l *linked) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	id := idOf(r.Key)
	if _, known := l.receipts.wait(ctx, id, receiptWait); !known {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, nil
	}
	sent := channel.Sent{Outcome: channel.OutcomeSent}
	if to, ok := jidOf(r.Conversation.ID); ok {
		if d, err := l.current(); err == nil {
			number, _ := d.Own()
			sent.MessageIDs = []string{ref{chat: to, id: id, sender: number}.String()}
		}
	}
	return sent, nil
}

// React implements line.
func (l *linked) React(ctx context.Context, r channel.Reaction) error {
	target, ok := parseRef(r.MessageID)
	if !ok {
		return status.Errorf(codes.InvalidArgument, "%q is not a message of WhatsApp", r.MessageID)
	}
	d, err := l.current()
	if err != nil {
		return err
	}
	number, _ := d.Own()
	emoji := r.Reaction
	if r.Remove {
		emoji = ""
	}
	key := &waCommon.MessageKey{
		RemoteJID: proto.String(target.chat.String()), FromMe: proto.Bool(target.sender == number), ID: proto.String(target.id),
	}
	if target.chat.Server == types.GroupServer && target.sender != number {
		key.Participant = proto.String(d.NameIn(ctx, target.chat, target.sender).String())
	}
	m := &waE2E.Message{ReactionMessage: &waE2E.ReactionMessage{
		Key: key, Text: proto.String(emoji), SenderTimestampMS: proto.Int64(time.Now().UnixMilli()),
	}}
	return sendOne(ctx, d, target.chat, m, idOf(fmt.Sprintf("reaction %s %s %d", r.MessageID, emoji, time.Now().UnixNano())))
}

// Typing implements line. It also marks the latest message as read.
func (l *linked) Typing(ctx context.Context, t channel.Typing) error {
	r, ok := l.last.Get(t.Conversation.ID)
	if !ok || !l.settings.ReadReceipts {
		return nil
	}
	d, err := l.current()
	if err != nil {
		return err
	}
	return d.Seen(ctx, r, t.On)
}
