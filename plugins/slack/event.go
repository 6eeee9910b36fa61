package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/channel"
)

// message is the part of a message, from an event or the history, that Flynn uses.
type message struct {
	Type        string      `json:"type"`
	Subtype     string      `json:"subtype"`
	Channel     string      `json:"channel"`
	ChannelType string      `json:"channel_type"` // absent from app_mention
	User        string      `json:"user"`
	Username    string      `json:"username"` // of a bot without a user
	UserTeam    string      `json:"user_team"`
	Team        string      `json:"team"`
	BotID       string      `json:"bot_id"`
	Text        string      `json:"text"`
	TS          string      `json:"ts"`
	ThreadTS    string      `json:"thread_ts"`
	DeletedTS   string      `json:"deleted_ts"`
	EventTS     string      `json:"event_ts"`
	Edited      *edited     `json:"edited"`
	Files       []sharedDoc `json:"files"`
	Message     *message    `json:"message"`
	Previous    *message    `json:"previous_message"`
}

type edited struct {
	TS string `json:"ts"`
}

// sharedDoc is a file in a message.
type sharedDoc struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Mimetype string `json:"mimetype"`
	Mode     string `json:"mode"` // "tombstone" and "hidden_by_limit" have no bytes
	Size     int64  `json:"size"`
}

// spoken are the subtypes that people write; all others are Slack's own notices.
var spoken = map[string]bool{"": true, "file_share": true, "thread_broadcast": true, "me_message": true, "bot_message": true}

// readEvent reads the payload of an events_api envelope.
func (p *plugin) readEvent(ctx context.Context, payload json.RawMessage) (happening, bool, error) {
	var outer struct {
		Event json.RawMessage `json:"event"`
	}
	var m message
	if err := json.Unmarshal(payload, &outer); err != nil {
		return happening{}, false, err
	}
	if err := json.Unmarshal(outer.Event, &m); err != nil {
		if kind := eventType(outer.Event); kind != "message" && kind != "app_mention" && !strings.HasPrefix(kind, "member_") {
			return p.readReaction(ctx, kind, outer.Event)
		}
		return happening{}, false, err
	}
	switch {
	case m.Type == "message" || m.Type == "app_mention":
		return p.readMessage(ctx, m)
	case strings.HasPrefix(m.Type, "member_"):
		return p.readMember(ctx, m)
	}
	return p.readReaction(ctx, m.Type, outer.Event)
}

// eventType returns the type of an event whose other fields are not known.
func eventType(event json.RawMessage) string {
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &e)
	return e.Type
}

// readMessage reads a new, a changed or a removed message.
func (p *plugin) readMessage(ctx context.Context, m message) (happening, bool, error) {
	switch {
	case m.Subtype == "message_changed" && m.Message != nil:
		return p.readChange(ctx, m)
	case m.Subtype == "message_deleted":
		return p.readDeletion(ctx, m)
	case !spoken[m.Subtype]:
		return happening{}, false, nil
	}
	return p.readNew(ctx, m)
}

// readNew turns a message into an event. Its id is its place and time: a mention comes as a message and as an app_mention, with an event_id
// each, and once more out of the history.
func (p *plugin) readNew(ctx context.Context, m message) (happening, bool, error) {
	if err := m.check(); err != nil {
		return happening{}, false, err
	}
	me := p.me()
	if m.by(me) {
		return happening{}, false, nil
	}
	e := channel.Event{ID: messageID(m.Channel, m.TS), SentAt: at(m.TS)}
	e.Sender = p.sender(ctx, m)
	p.fill(ctx, &e, m, me)
	return happening{event: e, source: kindOf(m), ts: m.TS, top: m.ThreadTS == "" || m.ThreadTS == m.TS}, true, nil
}

// fill sets the fields that a new and a changed message share.
func (p *plugin) fill(ctx context.Context, e *channel.Event, m message, me self) {
	d := decoder{name: func(id string) string { return p.people.name(ctx, id) }, me: me.user}
	e.Text, e.Entities, e.Mentioned = d.decode(m.Text)
	e.Conversation = p.conversation(m, e.Mentioned)
	if e.Conversation.Kind == channel.Thread && m.ThreadTS != "" && m.ThreadTS != m.TS {
		e.ReplyTo = messageID(m.Channel, m.ThreadTS)
	}
	called := e.Conversation.Kind == channel.Thread && p.settings.FollowThreads && p.places.isCalled(e.Conversation.ID)
	e.Addressed = e.Mentioned || called || kindOf(m) == "im"
	if e.Mentioned && e.Conversation.Kind == channel.Thread {
		p.places.call(e.Conversation.ID)
	}
	p.places.locate(m.Channel, m.TS, e.Conversation)
	for _, f := range m.Files {
		if f.ID != "" && f.Mode != "tombstone" && f.Mode != "hidden_by_limit" {
			e.Attachments = append(e.Attachments, channel.Attachment{Handle: f.ID, Name: f.Name, Type: f.Mimetype, Size: f.Size})
		}
	}
}

// conversation returns where an answer belongs. A mention in a channel begins a thread, if so configured.
func (p *plugin) conversation(m message, mentioned bool) channel.Conversation {
	begins := mentioned && p.settings.Threads == "mentions" && kindOf(m) != "im"
	switch thread := m.ThreadTS; {
	case thread != "":
		return threadOf(m.Channel, thread)
	case begins:
		return threadOf(m.Channel, m.TS)
	case kindOf(m) == "im":
		return channel.Conversation{ID: m.Channel, Kind: channel.DM}
	}
	return channel.Conversation{ID: m.Channel, Kind: channel.Group}
}

// threadOf names a thread by its channel and the ts of its first message.
func threadOf(place, ts string) channel.Conversation {
	return channel.Conversation{ID: place + ":" + ts, Kind: channel.Thread, Parent: place}
}

// split splits a conversation's id into its parts.
func split(conversation string) (place, thread string) {
	place, thread, _ = strings.Cut(conversation, ":")
	return place, thread
}

// kindOf returns the kind of a channel: the one that Slack reports, otherwise that by the prefix of its id.
func kindOf(m message) string {
	switch {
	case m.ChannelType != "":
		return m.ChannelType
	case strings.HasPrefix(m.Channel, "D"):
		return "im"
	}
	return "channel"
}

// readChange converts an edit by a person. A change without one, such as the preview of a link, is ignored.
func (p *plugin) readChange(ctx context.Context, m message) (happening, bool, error) {
	now := *m.Message
	now.Channel, now.ChannelType = m.Channel, m.ChannelType
	if err := now.check(); err != nil {
		return happening{}, false, err
	}
	me := p.me()
	same := m.Previous != nil && m.Previous.Text == now.Text
	if now.Edited == nil || same || now.by(me) || !spoken[now.Subtype] {
		return happening{}, false, nil
	}
	if at(now.Edited.TS).IsZero() {
		return happening{}, false, fmt.Errorf("%q is not the time of an edit", now.Edited.TS)
	}
	e := channel.Event{
		ID: messageID(now.Channel, now.TS) + ":edited." + now.Edited.TS, Kind: channel.EventEdit, TargetID: messageID(now.Channel, now.TS),
		Sender: p.sender(ctx, now), SentAt: at(now.Edited.TS),
	}
	p.fill(ctx, &e, now, me)
	return happening{event: e}, true, nil
}

func (p *plugin) readDeletion(ctx context.Context, m message) (happening, bool, error) {
	var was message
	if m.Previous != nil {
		was = *m.Previous
	}
	was.Channel, was.ChannelType, was.TS = m.Channel, m.ChannelType, m.DeletedTS
	if err := was.check(); err != nil {
		return happening{}, false, err
	}
	me := p.me()
	if was.by(me) || !spoken[was.Subtype] || was.User == "" && was.BotID == "" {
		return happening{}, false, nil
	}
	id := messageID(was.Channel, was.TS)
	e := channel.Event{ID: id + ":deleted", Kind: channel.EventDelete, TargetID: id, SentAt: at(m.EventTS)}
	e.Sender = p.sender(ctx, was)
	e.Conversation = p.conversation(was, strings.Contains(was.Text, "<@"+me.user+">"))
	return happening{event: e}, true, nil
}

// readReaction converts reaction_added. A removed reaction is not reported.
func (p *plugin) readReaction(ctx context.Context, kind string, event json.RawMessage) (happening, bool, error) {
	if kind != "reaction_added" {
		return happening{}, false, nil
	}
	var r struct {
		User, Reaction string
		EventTS        string `json:"event_ts"`
		Item           struct{ Type, Channel, TS string }
	}
	if err := json.Unmarshal(event, &r); err != nil {
		return happening{}, false, err
	}
	if r.Item.Type != "message" || r.User == p.me().user {
		return happening{}, false, nil
	}
	m := message{Channel: r.Item.Channel, TS: r.Item.TS, User: r.User}
	if err := m.check(); err != nil {
		return happening{}, false, err
	}
	e := channel.Event{
		ID:   fmt.Sprintf("%s:%s:reaction:%s:%s:%s", m.Channel, m.TS, r.User, r.Reaction, r.EventTS),
		Kind: channel.EventReaction, Text: emoji(r.Reaction), TargetID: messageID(m.Channel, m.TS), SentAt: at(r.EventTS), Sender: p.sender(ctx, m),
	}
	e.Conversation = p.places.where(m.Channel, m.TS)
	return happening{event: e}, true, nil
}

// readMember reads member_joined_channel and member_left_channel.
func (p *plugin) readMember(ctx context.Context, m message) (happening, bool, error) {
	text := map[string]string{"member_joined_channel": "join", "member_left_channel": "leave"}[m.Type]
	if text == "" || m.User == p.me().user {
		return happening{}, false, nil
	}
	if m.Channel == "" || m.User == "" {
		return happening{}, false, fmt.Errorf("%s names no person", m.Type)
	}
	return happening{event: channel.Event{
		ID:   m.Channel + ":" + m.EventTS + ":" + text + ":" + m.User,
		Kind: channel.EventMembership, Text: text, SentAt: at(m.EventTS), Sender: p.sender(ctx, m),
		Conversation: channel.Conversation{ID: m.Channel, Kind: channel.Group},
	}}, true, nil
}

// messageID names a message: an event, a target and a sent message alike.
func messageID(where, ts string) string { return where + ":" + ts }

// tsOf returns the ts of a message's id.
func tsOf(id string) string {
	if _, ts, ok := strings.Cut(id, ":"); ok {
		return ts
	}
	return id
}

// check refuses a message without its required fields.
func (m message) check() error {
	if m.Channel == "" || strings.Contains(m.Channel, ":") || at(m.TS).IsZero() || m.ThreadTS != "" && at(m.ThreadTS).IsZero() {
		return fmt.Errorf("message of channel %q at %q: an id or a time is missing", m.Channel, m.TS)
	}
	return nil
}

// by reports whether a message is Flynn's own.
func (m message) by(me self) bool {
	return m.User != "" && m.User == me.user || m.BotID != "" && m.BotID == me.bot
}

// at returns the time of a ts; zero if it is malformed.
func at(ts string) time.Time {
	seconds, micros, ok := strings.Cut(ts, ".")
	if !ok || len(seconds) > 12 || len(micros) != 6 {
		return time.Time{}
	}
	s, err := strconv.ParseUint(seconds, 10, 63)
	us, err2 := strconv.ParseUint(micros, 10, 63)
	if err != nil || err2 != nil || s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), int64(us)*1000)
}

// past turns a message of the history into the shape of an event.
func past(m slack.Message, place, kind string) message {
	out := message{
		Type: "message", Subtype: m.SubType, Channel: place, ChannelType: kind, User: m.User, Username: m.Username,
		Team: m.Team, BotID: m.BotID, Text: m.Text, TS: m.Timestamp, ThreadTS: m.ThreadTimestamp,
	}
	for _, f := range m.Files {
		out.Files = append(out.Files, sharedDoc{f.ID, f.Name, f.Mimetype, f.Mode, int64(f.Size)})
	}
	return out
}
