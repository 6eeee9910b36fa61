package slacktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Say posts a message of a person, of which the app gets an event, or two when it names the bot in a channel. TS is filled in and returned.
func (s *Server) Say(channel string, m Message) (ts string) {
	defer s.mu.Change()()
	m.TS = s.stamp()
	if len(m.Files) > 0 && m.Subtype == "" {
		m.Subtype = "file_share"
	}
	s.messages[channel] = append(s.messages[channel], m)
	s.emitMessage(channel, m)
	if kind := s.channels[channel].Kind; kind != "im" && strings.Contains(m.Text, "<@"+BotUser+">") {
		o := m.wire(false)
		o["type"], o["channel"], o["event_ts"] = "app_mention", channel, m.TS
		delete(o, "subtype")
		s.emit("events_api", o)
	}
	return m.TS
}

// emitMessage sends the app the event of a message. s.mu is held.
func (s *Server) emitMessage(channel string, m Message) {
	o := m.wire(false)
	s.place(o, channel, m.TS)
	s.emit("events_api", o)
}

// place adds where and when something happened. s.mu is held.
func (s *Server) place(o object, channel, ts string) {
	o["channel"], o["channel_type"], o["event_ts"] = channel, s.channels[channel].Kind, ts
}

// Edit changes the text of a message as its author.
func (s *Server) Edit(channel, ts, text string) {
	defer s.mu.Change()()
	m := s.find(channel, ts)
	before := m.wire(false)
	m.Text, m.Edited = text, s.stamp()
	o := object{"type": "message", "subtype": "message_changed", "hidden": true, "ts": m.Edited, "message": m.wire(false), "previous_message": before}
	s.place(o, channel, m.Edited)
	s.emit("events_api", o)
}

// Unfurl sends the event of a change without an author: Slack has added a preview.
func (s *Server) Unfurl(channel, ts string) {
	defer s.mu.Change()()
	m, at := s.find(channel, ts), s.stamp()
	now := m.wire(false)
	before := maps.Clone(now)
	now["attachments"] = []object{{"from_url": "https://example.com", "title": "Example"}}
	o := object{"type": "message", "subtype": "message_changed", "hidden": true, "ts": at, "message": now, "previous_message": before}
	s.place(o, channel, at)
	s.emit("events_api", o)
}

// Erase removes a message as its author.
func (s *Server) Erase(channel, ts string) {
	defer s.mu.Change()()
	at := s.stamp()
	o := object{
		"type": "message", "subtype": "message_deleted", "hidden": true, "ts": at, "deleted_ts": ts,
		"previous_message": s.find(channel, ts).wire(false),
	}
	s.place(o, channel, at)
	s.messages[channel] = slices.DeleteFunc(s.messages[channel], func(m Message) bool { return m.TS == ts })
	s.emit("events_api", o)
}

// React adds or takes away a person's reaction.
func (s *Server) React(user, channel, ts, name string, added bool) {
	defer s.mu.Change()()
	kind := "reaction_removed"
	if added {
		kind = "reaction_added"
	}
	s.emit("events_api", object{
		"type": kind, "user": user, "reaction": name, "item_user": BotUser, "event_ts": s.stamp(),
		"item": object{"type": "message", "channel": channel, "ts": ts},
	})
}

// Join sends the event of a person who joined or left.
func (s *Server) Join(user, channel string, came bool) {
	defer s.mu.Change()()
	kind := "member_left_channel"
	if came {
		kind = "member_joined_channel"
	}
	s.emit("events_api", object{"type": kind, "user": user, "channel": channel, "channel_type": "C", "team": Team, "event_ts": s.stamp()})
}

// Press presses a button of a message.
func (s *Server) Press(user, channel, ts, value string) *Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, ts)
	at := s.stamp()
	o := object{
		"type": "block_actions", "trigger_id": "trigger-" + at, "api_app_id": "A1", "team": object{"id": Team, "domain": "test"},
		"user":      object{"id": user, "username": s.users[user].Name, "name": s.users[user].Name, "team_id": s.users[user].Team},
		"container": object{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false},
		"channel":   object{"id": channel, "name": s.channels[channel].Name},
		"message":   m.wire(false),
		"actions":   []object{{"type": "button", "action_id": "flynn_0", "block_id": "b", "value": value, "action_ts": at}},
	}
	if m.ThreadTS != "" {
		o["container"].(object)["thread_ts"] = m.ThreadTS
	}
	return s.emit("interactive", o)
}

// Command runs a slash command.
func (s *Server) Command(user, channel, command, text string) *Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.channels[channel].Name
	if s.channels[channel].Kind == "im" {
		name = "directmessage"
	}
	return s.emit("slash_commands", object{
		"token": "x", "team_id": Team, "team_domain": "test", "channel_id": channel, "channel_name": name, "user_id": user,
		"user_name": s.users[user].Name, "command": command, "text": text, "api_app_id": "A1",
		"trigger_id": fmt.Sprintf("trigger-%s", s.stamp()), "response_url": s.http.URL + "/response",
	})
}

// Begin begins a thread with a message of the bot of which no event is sent, and returns its ts.
func (s *Server) Begin(channel string) (ts string) {
	defer s.mu.Change()()
	m := Message{User: BotUser, BotID: BotID, Text: "New thread", TS: s.stamp()}
	s.messages[channel] = append(s.messages[channel], m)
	return m.TS
}
