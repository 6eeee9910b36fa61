package command

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// sure is the word that an order to delete is confirmed by.
const sure = "yes"

// delete removes all that was said in a place, by every agent and before every /new, and begins a new session there. A private chat is its
// sender's own; what was said in a group is everybody's, so that only owners may.
func (d *Desk) delete(ctx context.Context, m message.Message, c Command, at *turnlog.Place) (
	text string, ask []message.Button, deletions []turnlog.Deletion, err error,
) {
	if m.Conversation.Kind != message.DM && !d.owner(m) {
		return "Only an owner can delete what was said in a group.", nil, nil, nil
	}
	list, busy, err := d.cfg.Sessions.In(ctx, at.Key)
	turns := 0
	for _, s := range list {
		turns += s.Turns
	}
	switch {
	case err != nil:
		return "", nil, nil, err
	case len(list) == 0:
		return "Nothing is kept of this conversation.", nil, nil, nil
	case c.Arg != sure:
		return fmt.Sprintf("This deletes all that was said here (%s) for good, with what agents noted of it, and the sandbox with what is in it. Files in "+
				"the workspace stay. Write `/delete %s` to do so.", count(turns, "answer"), sure),
			[]message.Button{{Text: "Delete", Value: "/delete " + sure, Style: message.ButtonDanger}}, nil, nil
	case busy:
		return "Something that was delegated here still runs. `/stop` ends it; then write `/delete " + sure + "` again.", nil, nil, nil
	}
	if _, err := d.cfg.Elevated.End(ctx, m.ConversationKey(), m.SenderKey(), "by /delete"); err != nil {
		return "", nil, nil, err
	}
	now := d.cfg.Now().UTC()
	at.Epoch, at.Began, at.Why = at.Epoch+1, now, turnlog.BeganAsked
	for _, s := range list {
		deletions = append(deletions, turnlog.Deletion{Key: s.Key, By: m.SenderKey(), At: now})
	}
	return fmt.Sprintf("Deleted: %s. What the host's logs say of decisions, approvals and costs stays as long as its owner keeps them.", count(turns, "answer")),
		nil, deletions, nil
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// afterwards removes what deleted sessions have outside of the store. Should the host die before, its next start does.
func (d *Desk) afterwards(ctx context.Context, deletions []turnlog.Deletion) {
	if len(deletions) == 0 {
		return
	}
	var keys []string
	for _, v := range deletions {
		keys = append(keys, v.Key)
	}
	d.cfg.Sessions.Deleted(context.WithoutCancel(ctx), keys)
}
