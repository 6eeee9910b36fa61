package command

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// fork continues a conversation in a new one of the sender's own, with the files. On the web page, the terminal and the console that is
// another one there. The conversations of a platform are fixed, so a fork from there goes on at the console. In a group others have spoken, so
// only owners may.
func (d *Service) fork(ctx context.Context, row mailbox.InboxRow) (string, error) {
	m := row.Message
	switch local := route.Local(m.Channel); {
	case m.Conversation.Kind != message.DM && !d.owner(m):
		return "Only an owner can fork the conversation of a group.", nil
	case !local && !d.cfg.Rules.Proved(m.Channel, m.SenderKey()):
		return "A fork goes on at the console, and nothing proves here who you are, so the console cannot know you.", nil
	}
	b := turnlog.Branch{Channel: m.Channel, Conversation: message.Conversation{ID: fmt.Sprint("fork-", row.ID), Kind: message.DM}, Sender: m.SenderKey()}
	if !route.Local(m.Channel) {
		b.Channel, b.Conversation.ID = message.ConsoleChannel, message.ConsoleConversation(m.SenderKey(), b.Conversation.ID)
	}
	made, _, err := d.cfg.Sessions.In(ctx, string(message.NewConversationKey(b.Channel, b.Conversation.ID)))
	if err != nil {
		return "", err
	}
	if len(made) > 0 { // by a host that died before it could say so
		return d.forked(m, b, "Look there which files it has."), nil
	}
	files, err := d.cfg.Sessions.ForkAll(ctx, m.Channel, m.Conversation.ID, b)
	switch {
	case err != nil:
		return d.refusal(ctx, err)
	case files.Why != "":
		return d.forked(m, b, "It has none of the files: "+files.Why+"."), nil
	}
	return d.forked(m, b, fmt.Sprintf("It has a copy of the files (%d). Background commands stay here.", files.Files)), nil
}

// terminal is the channel instance of flynn chat.
const terminal = "terminal"

// forked says where a fork goes on, and which files it has.
func (d *Service) forked(m message.Message, b turnlog.Branch, files string) string {
	where := d.cfg.Console.Conversation(b.Channel, b.Conversation.ID)
	switch {
	case m.Channel == terminal:
		return fmt.Sprintf("`/session %s` goes on in a new conversation with what was said here. %s", b.Conversation.ID, files)
	case b.Channel == m.Channel:
		return "A new conversation goes on with what was said here. " + files + "\n\n" + where
	}
	return "A new conversation at the console goes on with what was said here. " + files + " `/console` in a private chat signs you in there.\n\n" + where
}
