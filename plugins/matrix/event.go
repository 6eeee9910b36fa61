package main

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// event is an event of a room. Its content is parsed by type.
type event struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender"`
	At       int64           `json:"origin_server_ts"` // milliseconds
	StateKey *string         `json:"state_key"`
	Redacts  string          `json:"redacts"` // of a redaction, before room version 11
	Content  json.RawMessage `json:"content"`
}

// content is what messages, reactions and redactions hold.
type content struct {
	Type     string `json:"msgtype"`
	Body     string `json:"body"`
	FileName string `json:"filename"`
	URL      string `json:"url"`
	Info     struct {
		Type string `json:"mimetype"`
		Size int64  `json:"size"`
	} `json:"info"`
	Mentions struct {
		Users []string `json:"user_ids"`
	} `json:"m.mentions"`
	Redacts  string   `json:"redacts"`
	New      *content `json:"m.new_content"`
	Relation struct {
		Kind   string `json:"rel_type"`
		Event  string `json:"event_id"`
		Key    string `json:"key"`
		Answer struct {
			Event string `json:"event_id"`
		} `json:"m.in_reply_to"`
		// Fallback: the answer named in a thread is only for programs that know no threads.
		Fallback bool `json:"is_falling_back"`
	} `json:"m.relates_to"`
}

// event turns an event of a room into one for the host; ok is false for events that the host does not need.
func (p *plugin) event(ctx context.Context, roomID string, e event) (out channel.Event, ok bool) {
	var c content
	if e.StateKey != nil || json.Unmarshal(e.Content, &c) != nil {
		return out, false
	}
	out = channel.Event{
		ID: e.ID, Sender: channel.Sender{ID: e.Sender, Name: localpart(e.Sender), Self: e.Sender == p.settings.UserID, Bot: c.Type == "m.notice"},
		Conversation: channel.Conversation{ID: roomID, Kind: channel.Group}, SentAt: time.UnixMilli(e.At),
	}
	if out.Sender.Self {
		return out, false
	}
	if p.private(ctx, roomID) {
		out.Conversation.Kind = channel.DM
	}
	switch e.Type {
	case "m.room.message":
		return p.message(out, c, roomID)
	case "m.reaction":
		out.Kind, out.Text, out.TargetID = channel.EventReaction, c.Relation.Key, c.Relation.Event
		return out, out.Text != "" && out.TargetID != ""
	case "m.room.redaction":
		out.Kind, out.TargetID = channel.EventDelete, c.Redacts
		if out.TargetID == "" {
			out.TargetID = e.Redacts
		}
		return out, out.TargetID != ""
	}
	return out, false
}

func (p *plugin) message(out channel.Event, c content, roomID string) (channel.Event, bool) {
	shown := c
	switch c.Relation.Kind {
	case "m.replace":
		if c.New == nil {
			return out, false
		}
		shown = *c.New
		out.Kind, out.TargetID = channel.EventEdit, c.Relation.Event
	case "m.thread":
		out.Conversation = channel.Conversation{ID: c.Relation.Event, Kind: channel.Thread, Parent: roomID}
	}
	if !c.Relation.Fallback {
		out.ReplyTo = c.Relation.Answer.Event
	}
	out.Text = withoutQuote(shown.Body, c.Relation.Answer.Event != "")
	out.Mentioned = p.mentioned(shown)
	out.Addressed = out.Mentioned || out.Conversation.Kind == channel.DM
	switch shown.Type {
	case "m.text", "m.notice", "m.emote":
	case "m.image", "m.file", "m.audio", "m.video":
		out.Attachments = []channel.Attachment{{Handle: shown.URL, Name: name(shown), Type: shown.Info.Type, Size: shown.Info.Size}}
		if shown.FileName == "" || shown.FileName == shown.Body {
			out.Text = "" // the body is the file's name, not a caption
		}
		if _, _, ok := mxc(shown.URL); !ok {
			out.Attachments = nil // encrypted media have no address
		}
	default:
		return out, false
	}
	return out, out.Text != "" || len(out.Attachments) > 0
}

func name(c content) string {
	if c.FileName != "" {
		return c.FileName
	}
	return c.Body
}

// mentioned reports whether a message names us: by its list of mentions or, from programs that have none, by our whole id in its text, or our
// name at its beginning.
func (p *plugin) mentioned(c content) bool {
	if slices.Contains(c.Mentions.Users, p.settings.UserID) || strings.Contains(c.Body, p.settings.UserID) {
		return true
	}
	first, _, _ := strings.Cut(c.Body, " ")
	return strings.EqualFold(strings.Trim(first, "@:,"), localpart(p.settings.UserID)) && strings.ContainsAny(first, "@:,")
}

// withoutQuote takes away the quotation that older programs put before an answer.
func withoutQuote(body string, answer bool) string {
	if !answer || !strings.HasPrefix(body, "> <@") {
		return body
	}
	lines := strings.Split(body, "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, ">") })
	if i < 0 {
		return body
	}
	return strings.TrimPrefix(strings.Join(lines[i:], "\n"), "\n")
}

var mxcURI = regexp.MustCompile(`^mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})$`)

// mxc reads the address of media.
func mxc(uri string) (server, id string, ok bool) {
	m := mxcURI.FindStringSubmatch(uri)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}
