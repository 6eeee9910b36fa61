package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Compaction is the result of compacting a conversation.
type Compaction struct {
	Text    string
	Summary *turnlog.Summary // nil if there is none
	Applied func()           // to be called once it is committed
}

// forgetAll is the argument that stands for every note about the sender.
const forgetAll = "all"

// forget deletes agents' notes about the sender. In a group it does not show them.
func (d *Service) forget(ctx context.Context, m message.Message, c Command) (string, error) {
	q := memory.NoteQuery{Persons: memory.Scopes(d.cfg.Rules.Persons(m.SenderKey()))}
	if c.Arg == "" {
		return d.remembered(ctx, m, q)
	}
	if c.Arg != forgetAll {
		q.Key = c.Arg
	}
	gone, err := d.cfg.Store.ForgetNotes(ctx, q)
	switch {
	case err != nil:
		return "", err
	case len(gone) == 0 && q.Key != "":
		return "Nothing is remembered about you under that key. `/forget` in a private chat lists the notes.", nil
	case len(gone) == 1:
		return "Forgotten: 1 note.", nil
	}
	return fmt.Sprintf("Forgotten: %d notes.", len(gone)), nil
}

// remembered lists the keys of the notes about the sender.
func (d *Service) remembered(ctx context.Context, m message.Message, q memory.NoteQuery) (string, error) {
	if m.Conversation.Kind != message.DM {
		return "Write `/forget` in a private chat to see what is remembered about you, or `/forget all`.", nil
	}
	notes, err := d.cfg.Store.SearchNotes(ctx, q)
	if err != nil {
		return "", err
	}
	if len(notes) == 0 {
		return "Nothing is remembered about you.", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Remembered about you (%d); `/forget KEY` or `/forget all` deletes it:\n", len(notes))
	for _, n := range notes[:min(len(notes), maxRemembered)] {
		fmt.Fprintf(&b, "\n- `%s` (%s)", strings.ReplaceAll(n.Key, "`", "'"), n.Agent)
	}
	if len(notes) > maxRemembered {
		fmt.Fprintf(&b, "\n- and %d more", len(notes)-maxRemembered)
	}
	return b.String(), nil
}

// maxRemembered bounds the notes that are listed.
const maxRemembered = 30
