package main

import (
	"fmt"
	"strings"
	"time"

	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"

	"github.com/flynnhost/flynn/sdk/channel"
)

// ref names a message: an answer, a reaction and a receipt need all of it.
type ref struct {
	chat   types.JID
	id     string
	sender types.JID
	at     time.Time
}

// String returns the id that the host knows: conversation, message, sender. The sender chooses the middle one, hence the others.
func (r ref) String() string { return nameOf(r.chat) + "/" + r.id + "/" + nameOf(r.sender) }

// parseRef is the inverse of String.
func parseRef(s string) (ref, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || !validID(parts[1]) {
		return ref{}, false
	}
	chat, ok := jidOf(parts[0])
	sender, ok2 := jidOf(parts[2])
	return ref{chat: chat, id: parts[1], sender: sender}, ok && ok2
}

// validID reports whether the id of a message can be part of ours.
func validID(id string) bool {
	return id != "" && len(id) <= 100 && strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) < 0
}

// nameOf returns how the host knows a person or a group: a number as such, everything else with its server.
func nameOf(j types.JID) string {
	if j.Server == types.DefaultUserServer {
		return j.User
	}
	return j.User + "@" + j.Server
}

// jidOf is the inverse of nameOf.
func jidOf(name string) (types.JID, bool) {
	if digits(name) {
		return types.NewJID(name, types.DefaultUserServer), true
	}
	user, server, ok := strings.Cut(name, "@")
	if !ok || user == "" || len(name) > 100 || strings.Trim(user, "0123456789-") != "" || server != types.GroupServer && server != types.HiddenUserServer {
		return types.JID{}, false
	}
	return types.NewJID(user, server), true
}

// person returns the number instead of the hidden id where WhatsApp sends both.
func person(j, other types.JID) types.JID {
	if j.Server == types.HiddenUserServer && other.Server == types.DefaultUserServer {
		return other.ToNonAD()
	}
	return j.ToNonAD()
}

// eventOf converts a message. It ignores own messages, broadcasts and newsletters, and groups unless they are enabled.
func eventOf(m *events.Message, number, hidden types.JID, groups bool) (channel.Event, ref, bool) {
	r := ref{chat: m.Info.Chat.ToNonAD(), id: m.Info.ID, sender: person(m.Info.Sender, m.Info.SenderAlt), at: m.Info.Timestamp}
	e := channel.Event{
		SentAt: m.Info.Timestamp, Sender: channel.Sender{ID: nameOf(r.sender), Name: m.Info.PushName},
		Conversation: channel.Conversation{Kind: channel.Group},
	}
	switch m.Info.Chat.Server {
	case types.DefaultUserServer, types.HiddenUserServer:
		r.chat, e.Conversation.Kind = r.sender, channel.DM
	case types.GroupServer:
		if !groups {
			return e, r, false
		}
	default:
		return e, r, false
	}
	if m.Info.IsFromMe || !validID(r.id) || m.Message == nil {
		return e, r, false
	}
	e.Conversation.ID = nameOf(r.chat)
	e.ID = r.String()
	if _, ok := parseRef(e.ID); !ok {
		return e, r, false
	}
	me := owner{number, hidden}
	return e, r, read(&e, m.Message, r, me) && (e.Text != "" || len(e.Attachments) > 0 || e.Kind == channel.EventDelete)
}

// owner is the account by its two names.
type owner struct{ number, hidden types.JID }

func (o owner) is(jid string) bool {
	j, err := types.ParseJID(jid)
	if err != nil || j.User == "" {
		return false
	}
	return j.User == o.number.User && j.Server == o.number.Server || j.User == o.hidden.User && j.Server == o.hidden.Server
}

// read fills in the content of the message.
func read(e *channel.Event, m *waE2E.Message, r ref, me owner) bool {
	if p := m.GetProtocolMessage(); p != nil {
		return readProtocol(e, p, r, me)
	}
	if reaction := m.GetReactionMessage(); reaction != nil {
		key := reaction.GetKey()
		target := r
		target.id, target.sender = key.GetID(), targetSender(key.GetParticipant(), key.GetFromMe(), r, me)
		e.Kind, e.Text, e.TargetID = channel.EventReaction, reaction.GetText(), target.String()
		return validID(target.id)
	}
	readContent(e, m, r, me)
	return true
}

// targetSender returns whose message a key means. From the other side of a private chat, "not from me" is ours.
func targetSender(participant string, fromMe bool, r ref, me owner) types.JID {
	switch {
	case fromMe:
		return r.sender
	case participant != "" && !me.is(participant):
		if j, err := types.ParseJID(participant); err == nil {
			return j.ToNonAD()
		}
	}
	return me.number
}

// readProtocol reads an edit or a deletion; both are about a message of their sender.
func readProtocol(e *channel.Event, p *waE2E.ProtocolMessage, r ref, me owner) bool {
	target := r
	target.id = p.GetKey().GetID()
	e.TargetID = target.String()
	switch p.GetType() {
	case waE2E.ProtocolMessage_REVOKE:
		e.Kind = channel.EventDelete
		if by := p.GetKey().GetParticipant(); by != "" { // an administrator of a group deletes the message of another person
			if j, err := types.ParseJID(by); err == nil {
				target.sender = j.ToNonAD()
				e.TargetID = target.String()
			}
		}
		return validID(target.id)
	case waE2E.ProtocolMessage_MESSAGE_EDIT:
		readContent(e, p.GetEditedMessage(), r, me)
		e.Kind, e.Attachments = channel.EventEdit, nil
		return validID(target.id)
	}
	return false
}

// readContent reads text, media, places and contacts, and whether Flynn is meant.
func readContent(e *channel.Event, m *waE2E.Message, r ref, me owner) {
	e.Text = textOf(m)
	if a, ok := attachmentOf(m); ok {
		e.Attachments = []channel.Attachment{a}
	}
	c := contextOf(m)
	for _, jid := range c.GetMentionedJID() {
		if me.is(jid) {
			e.Mentioned = true
		}
	}
	if id := c.GetStanzaID(); validID(id) {
		quoted := r
		quoted.id, quoted.sender = id, targetSender(c.GetParticipant(), false, r, me)
		e.ReplyTo = quoted.String()
	}
	for _, own := range []types.JID{me.number, me.hidden} {
		if rest, ok := strings.CutPrefix(e.Text, "@"+own.User); ok && e.Mentioned && own.User != "" {
			e.Text = strings.TrimLeft(rest, " ,:")
		}
	}
	e.Addressed = e.Conversation.Kind == channel.DM || e.Mentioned || c.GetParticipant() != "" && me.is(c.GetParticipant())
}

func textOf(m *waE2E.Message) string {
	switch {
	case m.GetConversation() != "":
		return m.GetConversation()
	case m.GetExtendedTextMessage() != nil:
		return m.GetExtendedTextMessage().GetText()
	case m.GetImageMessage() != nil:
		return m.GetImageMessage().GetCaption()
	case m.GetVideoMessage() != nil:
		return m.GetVideoMessage().GetCaption()
	case m.GetDocumentMessage() != nil:
		return m.GetDocumentMessage().GetCaption()
	case m.GetLocationMessage() != nil:
		l := m.GetLocationMessage()
		text := fmt.Sprintf("Location: %.6f, %.6f", l.GetDegreesLatitude(), l.GetDegreesLongitude())
		for _, more := range []string{l.GetName(), l.GetAddress()} {
			if more != "" {
				text += ", " + more
			}
		}
		return text
	case m.GetContactMessage() != nil:
		return "Contact: " + m.GetContactMessage().GetDisplayName()
	}
	return ""
}

// contextOf returns the context of a message: whom it mentions, and which message it answers.
func contextOf(m *waE2E.Message) *waE2E.ContextInfo {
	for _, part := range []interface{ GetContextInfo() *waE2E.ContextInfo }{
		m.GetExtendedTextMessage(), m.GetImageMessage(), m.GetVideoMessage(), m.GetDocumentMessage(), m.GetAudioMessage(), m.GetStickerMessage(), m.GetLocationMessage(),
	} {
		if c := part.GetContextInfo(); c != nil {
			return c
		}
	}
	return nil
}
