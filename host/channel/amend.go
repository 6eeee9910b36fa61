package channel

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// A reply that amends an earlier one of its turn adds its text to it and removes its buttons, if the channel can edit messages. It is a
// row of the outbox like any other, behind the earlier one in the queue of its conversation, so it survives a restart. An edit can be
// repeated without harm. If it is not possible, nothing is sent: the turn says the same.

// The notes of an amendment that is settled.
const (
	noteAmended = "amended"
	noteLeft    = "the message was left as it is"
)

func (d *delivery) amend(ctx context.Context, s Sender) (done bool, wait time.Duration, err error) {
	earlier, ok, err := d.amended(ctx)
	if err != nil {
		return false, 0, err
	}
	to, can := drafter(s)
	if !ok || !can {
		return d.amendEnds(ctx, noteLeft)
	}
	next := d.row
	next.Attempts++
	if err := d.save(ctx, next); err != nil {
		return false, 0, err
	}
	e, failed := d.edit(ctx, to, earlier)
	switch {
	case e.Applied:
		return d.amendEnds(ctx, noteAmended)
	case e.RetryAfter > 0:
		d.after(&next, e.RetryAfter)
		return false, e.RetryAfter, d.save(ctx, next)
	case e.Never, e.Stale, next.Attempts >= maxEdits:
		d.logger().Info("a message keeps its buttons", "error", failed)
		return d.amendEnds(ctx, noteLeft)
	}
	return false, pauseAfter(next.Attempts), nil
}

// amended finds the earlier reply, if it was delivered.
func (d *delivery) amended(ctx context.Context) (mailbox.OutboxRow, bool, error) {
	rows, err := d.cfg.Store.Replies(ctx, d.row.Turn)
	if err != nil {
		if ctx.Err() != nil {
			return mailbox.OutboxRow{}, false, err
		}
		d.logger().Error("cannot look up the reply to amend", "error", err)
		return mailbox.OutboxRow{}, false, nil
	}
	for _, r := range rows {
		if r.Reply.Key == d.row.Reply.Amends {
			return r, r.State == mailbox.OutboxSent && len(r.PlatformIDs) > 0, nil
		}
	}
	return mailbox.OutboxRow{}, false, nil
}

// edit changes the last message of the earlier reply, which has the buttons.
func (d *delivery) edit(ctx context.Context, to Drafter, earlier mailbox.OutboxRow) (message.Revised, error) {
	text := earlier.Reply.Text
	if n := len(earlier.Parts); n > 0 {
		text = earlier.Parts[n-1]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	defer cancel()
	return to.Edit(ctx, message.Revision{
		Conversation: d.row.Reply.Conversation, MessageID: earlier.PlatformIDs[len(earlier.PlatformIDs)-1], Number: revision(d.cfg.Now(), 0) + 1,
		Text: text + "\n\n" + d.row.Reply.Text, Final: true,
	})
}

func (d *delivery) amendEnds(ctx context.Context, note string) (done bool, wait time.Duration, err error) {
	next := d.row
	next.State, next.Note = mailbox.OutboxSent, note
	if note == noteAmended {
		d.cfg.Events.Publish(Delivered{next.Reply.Channel, string(message.Sent)})
	}
	return true, 0, d.save(ctx, next)
}
