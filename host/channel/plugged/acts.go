package plugged

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
)

// wanted returns the message that an event is, and whether the configuration has anybody hear of it. The press of a button and a
// command of the platform are messages with the text that they stand for.
func wanted(e plugin.Event, c config.Access) (message.Message, bool) {
	m, want := e.Message, c.Edits
	switch e.Kind {
	case plugin.EventMessage, plugin.EventButton, plugin.EventCommand:
		return m, true
	case plugin.EventEdit:
		if want == "answer" {
			return m, true // like any message; Message.Edited says what it is
		}
		m.Act = message.Edit
	case plugin.EventDelete:
		if want == "answer" { // what is not there any more cannot be answered
			want = "note"
		}
		m.Act = message.Delete
	case plugin.EventReaction:
		m.Act, want = message.React, c.Reactions
	default:
		return m, false
	}
	m.About.ID, m.Noted = e.Target, want == "note"
	return m, want != "ignore"
}

// lookUp adds to an act the message that it is about. An act on a message of Flynn's, or on one that was addressed to Flynn, is
// addressed to Flynn.
func (c *Channels) lookUp(ctx context.Context, m *message.Message) {
	if m.Act == "" || m.About.ID == "" {
		return
	}
	sent, err := c.cfg.Store.FindSent(ctx, m.Channel, m.Conversation.ID, m.About.ID)
	if err == nil {
		m.About.Ours, m.About.Text, m.Addressed = true, cut.Head(sent.Reply.Text, message.MaxAbout), true
		return
	}
	if errors.Is(err, store.ErrNotFound) {
		var row mailbox.InboxRow
		row, err = c.cfg.Store.FindInbox(ctx, m.Channel, m.About.ID)
		if err == nil && row.Message.Conversation.ID == m.Conversation.ID && row.State != mailbox.InboxDropped {
			m.About.Text, m.Addressed = cut.Head(row.Message.Text, message.MaxAbout), true
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		c.cfg.Log.Warn("cannot look up an earlier message", "channel", m.Channel, "error", err)
	}
}
