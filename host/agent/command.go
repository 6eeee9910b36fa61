package agent

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// answerCommand answers an order to the host that had to wait for the turns of its conversation. The reply's key comes from the message,
// so that a repetition after a crash changes nothing.
func (r *Runner) answerCommand(ctx context.Context, row store.InboxRow, text string) error {
	m, turn := row.Message, fmt.Sprintf("command-%d", row.ID)
	reply := message.Reply{Key: turn + "/0", Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID, Text: text}
	fresh, err := r.cfg.Store.AddReplies(ctx, turn, []message.Reply{reply})
	if err != nil {
		return err
	}
	for _, f := range fresh {
		e := message.Event{Kind: message.ReplyReady, Channel: m.Channel, Conversation: m.Conversation.ID, Turn: turn, Text: text, Key: f.Key}
		r.cfg.Publish(e)
		e.Kind, e.Text, e.Key = message.TurnDone, "", ""
		r.cfg.Publish(e)
		r.cfg.Replied(turn, f)
	}
	return r.cfg.Store.SetInbox(ctx, row.ID, store.InboxDone, "command")
}
