package channel

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// A reply with a draft is delivered by the draft's last edit. An edit can be repeated without harm, so its row never has the state
// Sending; Attempts is committed before the first one, so that a later process can tell an edit that came too late from one that the
// channel applied before. When editing fails for good, the draft is removed and the reply is sent as if there had been none.

// maxEdits bounds the attempts of a last edit whose error does not say when to try again; with the back-off they take about two minutes.
const maxEdits = 10

// windowMargin is subtracted from an edit window, for differences of clocks and transmission times.
const windowMargin = 5 * time.Second

// draft returns the draft that the current part completes, if there is one.
func (d *delivery) draft(ctx context.Context, s Sender) (mailbox.Draft, Drafter, error) {
	if d.drafts == nil || d.row.Part > 0 || d.row.Reply.Answers == 0 {
		return mailbox.Draft{}, nil, nil
	}
	draft, ok, err := d.drafts.settle(ctx, d.row.Reply.Answers)
	if err != nil || !ok {
		return mailbox.Draft{}, nil, err
	}
	to, can := drafter(s)
	if can && draft.MessageID == "" {
		if err := d.rested(ctx); err != nil {
			return mailbox.Draft{}, nil, err
		}
		draft, can = d.drafts.find(context.WithoutCancel(ctx), s, draft, d.first(s))
	}
	if !can {
		return mailbox.Draft{}, nil, d.drafts.forget(ctx, d.row.Reply.Answers)
	}
	return draft, to, nil
}

// first returns the reply with the text of its draft.
func (d *delivery) first(s Sender) message.Reply {
	r := d.row.Reply
	r.Text = split(r.Text, s.Capabilities().MaxTextRunes)[0]
	return r
}

// finish completes a draft.
func (d *delivery) finish(ctx context.Context, s Sender, draft mailbox.Draft, to Drafter) (done bool, wait time.Duration, err error) {
	if w := s.Capabilities().EditWindow; w > 0 && d.cfg.Now().Sub(draft.SentAt) > w-windowMargin {
		return d.replace(ctx, s, draft, to, false)
	}
	next := d.row
	next.Attempts++
	if err := d.save(ctx, next); err != nil {
		return false, 0, err
	}
	if d.cfg.Ownership.Rest(ctx) > 0 { // an edit of a previous owner may come after this one, which only saves people the wait
		if _, err := d.completes(ctx, draft, to, false); err != nil {
			d.logger().Debug("cannot complete a draft before its last edit", "error", err)
		}
		if err := d.rested(ctx); err != nil {
			return false, 0, err
		}
	}
	e, failed := d.completes(ctx, draft, to, true)
	switch {
	case e.Applied, e.Stale && next.Attempts > 1:
		d.cfg.Events.Publish(Delivered{next.Reply.Channel, string(message.Sent)})
		done, wait, err = d.record(ctx, next, message.Delivery{Outcome: message.Sent, PlatformIDs: []string{draft.MessageID}})
		if err == nil {
			err = d.drafts.forget(ctx, next.Reply.Answers)
		}
		return done, wait, err
	case e.RetryAfter > 0:
		d.after(&next, e.RetryAfter)
		return false, e.RetryAfter, d.save(ctx, next)
	case e.Never, e.Stale, next.Attempts >= maxEdits:
		d.logger().Warn("cannot complete a draft; sending the reply as a new message", "error", failed)
		return d.replace(ctx, s, draft, to, !e.Never && !e.Stale)
	}
	return false, pauseAfter(next.Attempts), nil
}

// completes edits a draft to what it becomes, for the last time or not.
func (d *delivery) completes(ctx context.Context, draft mailbox.Draft, to Drafter, last bool) (message.Revised, error) {
	r := due(d.row)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	defer cancel()
	return to.Edit(ctx, message.Revision{
		Conversation: r.Conversation, MessageID: draft.MessageID, Number: revision(d.cfg.Now(), 0) + 1, Text: r.Text, Final: last, Buttons: r.Buttons,
	})
}

// replace removes a draft, if the channel can, so that the reply is sent like any other. If the draft stays and may show the whole
// answer, the reply is marked as a possible duplicate.
func (d *delivery) replace(ctx context.Context, s Sender, draft mailbox.Draft, to Drafter, unclear bool) (done bool, wait time.Duration, err error) {
	gone := false
	if s.Capabilities().Delete {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
		defer cancel()
		err := to.Delete(call, d.row.Reply.Conversation, draft.MessageID)
		if gone = err == nil; !gone {
			d.logger().Warn("cannot remove a draft", "error", err)
		}
	}
	next := d.row
	next.Attempts, next.NextTry, next.Pause = 0, time.Time{}, 0
	next.Reply.PossibleDuplicate = unclear && !gone
	if err := d.save(ctx, next); err != nil {
		return false, 0, err
	}
	return false, 0, d.drafts.forget(ctx, next.Reply.Answers)
}
