package plugged

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
)

// wanted returns an event as a message, and whether the configuration wants it. The press of a button and a command of the platform are
// messages with the text that they stand for.
func wanted(e channelkind.Event, c config.Access) (message.Message, bool) {
	m, want := e.Message, c.Edits
	switch e.Kind {
	case channelkind.EventMessage, channelkind.EventButton, channelkind.EventCommand:
		return m, true
	case channelkind.EventEdit:
		if want == "answer" {
			return m, true // like any message; Message.Edited is set
		}
		m.Act = message.Edit
	case channelkind.EventDelete:
		if want == "answer" { // a deleted message cannot be answered
			want = "note"
		}
		m.Act = message.Delete
	case channelkind.EventReaction:
		m.Act, want = message.React, c.Reactions
	default:
		return m, false
	}
	m.About.ID, m.Noted = e.Target, want == "note"
	return m, want != "ignore"
}

// lookUp adds the message that an act is about. An act on a message from Flynn or to Flynn is addressed to Flynn.
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
