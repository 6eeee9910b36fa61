package slacktest

import (
	"encoding/json"
	"net/url"
	"slices"
)

// Message is a message of a conversation.
type Message struct {
	TS, ThreadTS string
	User         string
	Team         string // of the user, when it is another one
	BotID        string
	Subtype      string
	Text         string // in Slack's escaped form
	Plain        bool   // markup is not shown
	NoUnfurl     bool
	Blocks       json.RawMessage
	Metadata     json.RawMessage
	Edited       string // ts; empty when it was not
	Edits        int
	Reactions    []string // of the bot
	Files        []*File
}

// fill handles the arguments that chat.postMessage and chat.update share, and returns an error code.
func (m *Message) fill(form url.Values) string {
	text, blocks := form.Get("text"), form.Get("blocks")
	switch {
	case text == "" && blocks == "":
		return "no_text"
	case tooLong(text):
		return "msg_too_long"
	case blocks != "":
		if why := checkBlocks(blocks); why != "" {
			return why
		}
		m.Blocks = json.RawMessage(blocks)
	}
	if data := form.Get("metadata"); data != "" {
		if !json.Valid([]byte(data)) {
			return "invalid_metadata_format"
		}
		m.Metadata = json.RawMessage(data)
	}
	m.Text = text
	m.Plain = form.Get("mrkdwn") == "false"
	m.NoUnfurl = form.Get("unfurl_links") == "false" && form.Get("unfurl_media") == "false"
	return ""
}

// checkBlocks applies the limits of sections, buttons and actions.
func checkBlocks(text string) string {
	var blocks []struct {
		Type string `json:"type"`
		Text struct {
			Text string `json:"text"`
		} `json:"text"`
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string `json:"value"`
			Text     struct {
				Text string `json:"text"`
			} `json:"text"`
		} `json:"elements"`
	}
	if json.Unmarshal([]byte(text), &blocks) != nil {
		return "invalid_blocks_format"
	}
	if len(blocks) > 50 {
		return "invalid_blocks"
	}
	ids := map[string]bool{}
	for _, b := range blocks {
		n := len([]rune(b.Text.Text))
		if b.Type == "section" && (n == 0 || n > 3000) || len(b.Elements) > 25 {
			return "invalid_blocks"
		}
		for _, e := range b.Elements {
			if b.Type == "actions" && (ids[e.ActionID] || len(e.Value) > 2000 || len([]rune(e.Text.Text)) > 75 || e.Text.Text == "") {
				return "invalid_blocks"
			}
			ids[e.ActionID] = true
		}
	}
	return ""
}

// wire returns the message as Slack shows it.
func (m Message) wire(metadata bool) object {
	o := object{"type": "message", "ts": m.TS, "user": m.User, "text": m.Text, "team": Team}
	add := func(key string, v any, is bool) {
		if is {
			o[key] = v
		}
	}
	add("team", m.Team, m.Team != "")
	add("user_team", m.Team, m.Team != "")
	add("thread_ts", m.ThreadTS, m.ThreadTS != "")
	add("bot_id", m.BotID, m.BotID != "")
	add("subtype", m.Subtype, m.Subtype != "")
	add("blocks", m.Blocks, m.Blocks != nil)
	add("metadata", m.Metadata, m.Metadata != nil && metadata)
	add("edited", object{"user": m.User, "ts": m.Edited}, m.Edited != "")
	if len(m.Files) > 0 {
		var files []object
		for _, f := range m.Files {
			files = append(files, f.wire())
		}
		o["files"] = files
	}
	return o
}

// find returns a message. s.mu is held.
func (s *Server) find(channel, ts string) *Message {
	list := s.messages[channel]
	i := slices.IndexFunc(list, func(m Message) bool { return m.TS == ts })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// within applies oldest, latest and inclusive.
func within(ts string, form url.Values) bool {
	oldest, latest, inclusive := form.Get("oldest"), form.Get("latest"), form.Get("inclusive") == "true" || form.Get("inclusive") == "1"
	if oldest != "" && oldest != "0" && (ts < oldest || ts == oldest && !inclusive) {
		return false
	}
	return latest == "" || ts < latest || ts == latest && inclusive
}

func withMetadata(form url.Values) bool {
	v := form.Get("include_all_metadata")
	return v == "true" || v == "1"
}

// history answers conversations.history: newest first, without what was said in threads.
func (s *Server) history(form url.Values) object {
	channel := form.Get("channel")
	if why := s.writable(channel); why != "" && why != "is_archived" {
		return refusal(why)
	}
	var list []Message
	for _, m := range slices.Backward(s.messages[channel]) {
		if top := m.ThreadTS == "" || m.ThreadTS == m.TS || m.Subtype == "thread_broadcast"; top && within(m.TS, form) {
			list = append(list, m)
		}
	}
	return listed(list, form)
}

// replies answers conversations.replies: the parent, and its replies, oldest first.
func (s *Server) replies(form url.Values) object {
	channel, parent := form.Get("channel"), form.Get("ts")
	if why := s.writable(channel); why != "" && why != "is_archived" {
		return refusal(why)
	}
	if s.find(channel, parent) == nil {
		return refusal("thread_not_found")
	}
	var list []Message
	for _, m := range s.messages[channel] {
		if m.TS == parent || m.ThreadTS == parent && within(m.TS, form) {
			list = append(list, m)
		}
	}
	return listed(list, form)
}

func listed(list []Message, form url.Values) object {
	page, next := paged(list, form)
	wire := []object{}
	for _, m := range page {
		wire = append(wire, m.wire(withMetadata(form)))
	}
	return object{"ok": true, "messages": wire, "has_more": next != "", "response_metadata": object{"next_cursor": next}}
}
