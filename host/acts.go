package host

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

// act makes a message of what was done to an earlier one, and reports whether the configuration wants to hear of it.
func act(e *plugin.Event, c config.Access) bool {
	m, want := &e.Message, c.Edits
	switch e.Kind {
	case plugin.EventEdit:
		if want == "answer" {
			return true // like any message; Message.Edited says what it is
		}
		m.Act = message.Edit
	case plugin.EventDelete:
		if want == "answer" { // what is not there any more cannot be answered
			want = "note"
		}
		m.Act = message.Delete
	case plugin.EventReaction:
		m.Act, want = message.React, c.Reactions
	}
	m.About.ID, m.Noted = e.Target, want == "note"
	return want != "ignore"
}

// recall looks up the message that an act is about. Who does something to a message of Flynn's, or to one that Flynn was meant to
// hear, means Flynn.
func (h *Host) recall(ctx context.Context, m *message.Message) {
	if m.Act == "" || m.About.ID == "" {
		return
	}
	sent, err := h.store.FindSent(ctx, m.Channel, m.Conversation.ID, m.About.ID)
	if err == nil {
		m.About.Ours, m.About.Text, m.Addressed = true, beginning(sent.Reply.Text), true
		return
	}
	if errors.Is(err, store.ErrNotFound) {
		var row store.InboxRow
		row, err = h.store.FindInbox(ctx, m.Channel, m.About.ID)
		if err == nil && row.Message.Conversation.ID == m.Conversation.ID && row.State != store.InboxDropped {
			m.About.Text, m.Addressed = beginning(row.Message.Text), true
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.log.Warn("cannot look up an earlier message", "channel", m.Channel, "error", err)
	}
}

// beginning is as much of a text as is kept with an act.
func beginning(text string) string {
	if len(text) <= message.MaxAbout {
		return text
	}
	end := message.MaxAbout
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
