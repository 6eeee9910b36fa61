package command

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Console signs people in at the console.
type Console interface {
	// Link makes a link that signs a sender in, which is good once and for minutes. event is the message that asks for it. local is true
	// if the link leads to this machine itself.
	Link(ctx context.Context, sender message.SenderKey, event string) (link string, local bool, err error)
	// Conversation returns the address of a conversation, for people who are signed in.
	Conversation(channel, id string) string
}

// linkSent is what watchers of a conversation see instead of the link.
const linkSent = "A link to the console was sent to the person who asked for it."

// console answers with a link. Everybody in a group could open it, so it is only for private chats, and only for senders whom the platform
// proves.
func (d *Service) console(ctx context.Context, m message.Message) (string, error) {
	switch {
	case route.Frontend(m.Channel) != route.FrontendChannel:
		return "You are at the console already.", nil
	case m.Conversation.Kind != message.DM:
		return "Write `/console` in a private chat.", nil
	case !d.cfg.Rules.Proved(m.Channel, m.SenderKey()):
		return "Nothing proves here who you are, so the console cannot know you.", nil
	}
	link, local, err := d.cfg.Console.Link(ctx, m.SenderKey(), string(message.NewConversationKey(m.Channel, m.EventID)))
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("Your link to the console, good once and for 10 minutes. It makes anybody who opens it you there: pass it on to nobody.\n\n%s", link)
	if local {
		text += "\n\nIt works on the machine that Flynn runs on, or through a forwarded port."
	}
	return text, nil
}
