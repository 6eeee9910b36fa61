package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// Ids of events are made of what Telegram never uses twice: chat, message, time. The update's own id is none of that: after a week
// without updates Telegram goes on from a random number, and an old number that came again would be taken for a repeat and dropped. It
// only tells apart what is otherwise the same, such as two edits within a second.

// readUpdate reads one update. An id alone comes back with the error when the rest is not understood.
func readUpdate(raw json.RawMessage) (*models.Update, error) {
	var head struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || head.ID <= 0 {
		return nil, fmt.Errorf("read update: no update_id")
	}
	u := &models.Update{}
	if err := json.Unmarshal(raw, u); err != nil {
		return &models.Update{ID: head.ID}, fmt.Errorf("read update %d: %w", head.ID, err)
	}
	return u, nil
}

// events converts an update; most become one event, and some none.
func (p *plugin) events(u *models.Update, raw []byte) []channel.Event {
	var list []channel.Event
	switch {
	case u.Message != nil:
		list = p.said(u.Message)
	case u.ChannelPost != nil:
		list = p.said(u.ChannelPost)
	case u.EditedMessage != nil:
		list = p.edited(u.ID, u.EditedMessage)
	case u.EditedChannelPost != nil:
		list = p.edited(u.ID, u.EditedChannelPost)
	case u.CallbackQuery != nil:
		list = p.pressed(u.CallbackQuery)
	case u.MessageReaction != nil:
		list = p.reacted(u.ID, u.MessageReaction)
	}
	for i := range list {
		list[i].RawJSON = raw
	}
	return list
}

// said returns the events of a new message or of a service message.
func (p *plugin) said(m *models.Message) []channel.Event {
	if m.MigrateToChatID != 0 || m.MigrateFromChatID != 0 {
		p.moved(m)
		return nil
	}
	if list := p.membership(m); list != nil {
		return list
	}
	e := p.event(m)
	if e.Text == "" && len(e.Attachments) == 0 {
		return nil
	}
	return []channel.Event{e}
}

// moved records a group that became a supergroup; the message arrives in both chats.
func (p *plugin) moved(m *models.Message) {
	from, to := m.Chat.ID, m.MigrateToChatID
	if to == 0 {
		from, to = m.MigrateFromChatID, m.Chat.ID
	}
	if err := p.moves.add(from, to); err != nil {
		p.log.Error("a group that became a supergroup will be a new conversation after a restart", "error", err)
	}
}

// event returns a message with everything that it says.
func (p *plugin) event(m *models.Message) channel.Event {
	e := channel.Event{
		ID:           messageID(m.Chat.ID, m.ID),
		Conversation: p.conversation(m.Chat, topic(m)),
		Sender:       p.sender(m),
		SentAt:       unix(m.Date),
		Attachments:  attachments(m),
	}
	t := content(m)
	e.Addressed, e.Mentioned = p.self().address(m, &t)
	e.Text, e.Entities = t.text, t.entities
	if r := repliesTo(m); r != nil {
		e.ReplyTo = messageID(r.Chat.ID, r.ID)
	}
	return e
}

// edited converts the new version of an earlier message. A person who shares a live location edits the message every few seconds, which is
// ignored.
func (p *plugin) edited(update int64, m *models.Message) []channel.Event {
	e := p.event(m)
	if m.Location != nil || e.Text == "" && len(e.Attachments) == 0 {
		return nil
	}
	e.Kind, e.TargetID = channel.EventEdit, e.ID
	e.ID = fmt.Sprintf("%s:e%d:%d", e.TargetID, m.EditDate, update)
	e.SentAt = unix(m.EditDate)
	return []channel.Event{e}
}

// pressed is a press of a button below one of the bot's messages. The message may be too old to come along.
func (p *plugin) pressed(q *models.CallbackQuery) []channel.Event {
	e := channel.Event{
		ID: "b" + q.ID, Kind: channel.EventButton, Sender: person(q.From, p.self().id), Text: q.Data, Addressed: true, SentAt: time.Now(),
	}
	switch {
	case q.Message.Message != nil:
		m := q.Message.Message
		e.Conversation, e.TargetID = p.conversation(m.Chat, topic(m)), messageID(m.Chat.ID, m.ID)
	case q.Message.InaccessibleMessage != nil:
		m := q.Message.InaccessibleMessage
		e.Conversation, e.TargetID = p.conversation(m.Chat, 0), messageID(m.Chat.ID, m.MessageID)
	default: // of a message sent through another chat: not ours
		return nil
	}
	return []channel.Event{e}
}

// reacted is every reaction that is new. That one was taken away is not told: the contract has no word for it. Telegram does not
// say in which topic the message is.
func (p *plugin) reacted(update int64, r *models.MessageReactionUpdated) []channel.Event {
	before := map[string]bool{}
	for _, old := range r.OldReaction {
		before[reaction(old)] = true
	}
	var list []channel.Event
	for i, now := range r.NewReaction {
		text := reaction(now)
		if text == "" || before[text] {
			continue
		}
		e := channel.Event{
			ID:   fmt.Sprintf("%s:r%d:%d:%d", messageID(r.Chat.ID, r.MessageID), r.Date, update, i),
			Kind: channel.EventReaction, Conversation: p.conversation(r.Chat, 0), Text: text,
			TargetID: messageID(r.Chat.ID, r.MessageID), SentAt: unix(r.Date),
		}
		switch {
		case r.User != nil:
			e.Sender = person(*r.User, p.self().id)
		case r.ActorChat != nil:
			e.Sender = channel.Sender{ID: strconv.FormatInt(r.ActorChat.ID, 10), Name: r.ActorChat.Title}
		default:
			continue
		}
		list = append(list, e)
	}
	return list
}

func reaction(r models.ReactionType) string {
	switch {
	case r.ReactionTypeEmoji != nil:
		return r.ReactionTypeEmoji.Emoji
	case r.ReactionTypeCustomEmoji != nil:
		return "custom:" + r.ReactionTypeCustomEmoji.CustomEmojiID
	}
	return ""
}

// membership converts a service message about people who joined or left; nil if it is about something else.
func (p *plugin) membership(m *models.Message) []channel.Event {
	var list []channel.Event
	tell := func(u models.User, what string) {
		list = append(list, channel.Event{
			ID:   fmt.Sprintf("%s:%s:%d", messageID(m.Chat.ID, m.ID), what, u.ID),
			Kind: channel.EventMembership, Conversation: p.conversation(m.Chat, 0), Sender: person(u, p.self().id), Text: what, SentAt: unix(m.Date),
		})
	}
	for _, u := range m.NewChatMembers {
		tell(u, "join")
	}
	if m.LeftChatMember != nil {
		tell(*m.LeftChatMember, "leave")
	}
	return list
}

// sender returns who wrote a message: a person by the number that Telegram gave him for ever; or a chat, for posts of a channel
// and for administrators who write in the name of their group. Behind those Telegram shows a stand-in account, which is nobody.
func (p *plugin) sender(m *models.Message) channel.Sender {
	switch {
	case m.SenderChat != nil:
		s := channel.Sender{ID: strconv.FormatInt(m.SenderChat.ID, 10), Name: signed(m.SenderChat.Title, m.AuthorSignature)}
		if m.SenderChat.ID == m.Chat.ID && m.Chat.Type != models.ChatTypeChannel {
			s.Roles = []string{"administrator"} // only administrators can write in the group's name
		}
		return s
	case m.From != nil:
		return person(*m.From, p.self().id)
	}
	return channel.Sender{ID: strconv.FormatInt(m.Chat.ID, 10), Name: signed(m.Chat.Title, m.AuthorSignature)}
}

func signed(title, author string) string {
	if author == "" {
		return title
	}
	return title + " (" + author + ")"
}

func person(u models.User, self int64) channel.Sender {
	return channel.Sender{
		ID: strconv.FormatInt(u.ID, 10), Name: strings.TrimSpace(u.FirstName + " " + u.LastName), Bot: u.IsBot, Self: u.ID == self,
	}
}

func unix(seconds int) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// content returns the text of a message, the caption of its media, or a description of anything else.
func content(m *models.Message) marked {
	switch {
	case m.Text != "":
		return newMarked(m.Text, m.Entities)
	case m.Caption != "":
		return newMarked(m.Caption, m.CaptionEntities)
	}
	return marked{text: inWords(m)}
}

// inWords describes content that is neither text nor a file.
func inWords(m *models.Message) string {
	switch {
	case m.Sticker != nil:
		return m.Sticker.Emoji
	case m.Venue != nil:
		return fmt.Sprintf("[place: %s, %s, %.6f %.6f]", m.Venue.Title, m.Venue.Address, m.Venue.Location.Latitude, m.Venue.Location.Longitude)
	case m.Location != nil:
		return fmt.Sprintf("[location: %.6f %.6f]", m.Location.Latitude, m.Location.Longitude)
	case m.Contact != nil:
		return fmt.Sprintf("[contact: %s, %s]", strings.TrimSpace(m.Contact.FirstName+" "+m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		options := make([]string, len(m.Poll.Options))
		for i, o := range m.Poll.Options {
			options[i] = o.Text
		}
		return fmt.Sprintf("[poll: %s / %s]", m.Poll.Question, strings.Join(options, " / "))
	case m.Dice != nil:
		return fmt.Sprintf("[%s: %d]", m.Dice.Emoji, m.Dice.Value)
	}
	return ""
}
