package command

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// sure is the argument that confirms a deletion.
const sure = "yes"

// delete deletes all sessions of a scope, of every agent and from before every /new, and starts a new session there. In a private chat
// its sender may do so; a group belongs to everybody in it, so there only owners may.
func (d *Service) delete(ctx context.Context, m message.Message, c Command, at *turnlog.Scope) (
	text string, ask []message.Button, deletions []turnlog.Deletion, err error,
) {
	if m.Conversation.Kind != message.DM && !d.owner(m) {
		return "Only an owner can delete the conversation of a group.", nil, nil, nil
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
		return "Nothing is stored about this conversation.", nil, nil, nil
	case c.Arg != sure:
		return fmt.Sprintf("This deletes this conversation (%s) for good, with the agents' notes about it, and the sandbox with its content. Files in "+
				"the workspace stay. Write `/delete %s` to do so.", count(turns, "answer"), sure),
			[]message.Button{{Text: "Delete", Value: "/delete " + sure, Style: message.ButtonDanger}}, nil, nil
	case busy:
		return "A delegated task still runs here. `/stop` ends it; then write `/delete " + sure + "` again.", nil, nil, nil
	}
	if _, err := d.cfg.Elevated.End(ctx, m.ConversationKey(), string(m.SenderKey()), "by /delete"); err != nil {
		return "", nil, nil, err
	}
	now := d.cfg.Now().UTC()
	at.Epoch, at.Began, at.Why = at.Epoch+1, now, turnlog.BeganAsked
	for _, s := range list {
		deletions = append(deletions, turnlog.Deletion{Key: s.Key, By: string(m.SenderKey()), At: now})
	}
	return fmt.Sprintf("Deleted: %s. The host's logs of decisions, approvals and costs stay as long as its owner keeps them.", count(turns, "answer")),
		nil, deletions, nil
}

// count returns a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// afterwards removes what deleted sessions have outside the store. If the host dies before, its next start does it.
func (d *Service) afterwards(ctx context.Context, deletions []turnlog.Deletion) {
	if len(deletions) == 0 {
		return
	}
	var keys []message.SessionKey
	for _, v := range deletions {
		keys = append(keys, v.Key)
	}
	d.cfg.Sessions.Deleted(context.WithoutCancel(ctx), keys)
}
