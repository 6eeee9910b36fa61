package notice

import (
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// requests are the messages that show a request: in the conversation that it comes from, and in others.
func requests(others []string, t turnlog.Turn, replyTo string, a consent.Approval, o approval.Offer) []message.Reply {
	text := approval.Text(a, o, time.Now())
	buttons := answers(a, o)
	var out []message.Reply
	if route.Frontend(t.Channel) == route.FrontendChannel {
		out = append(out, message.Reply{
			Key: askKey(a), Channel: t.Channel, Conversation: t.Conversation, ReplyTo: replyTo, Text: text, Buttons: buttons,
		})
	}
	for _, where := range others {
		to := message.ConversationKey(where)
		if to == t.ConversationKey() {
			continue
		}
		out = append(out, message.Reply{
			Key: askKey(a) + "/" + where, Channel: to.Channel(), Conversation: message.Conversation{ID: to.ID(), Kind: message.DM},
			Text: text, Buttons: buttons,
		})
	}
	return out
}

// askKey returns the key of the message that shows a request in its own conversation, and the prefix of the keys in others.
func askKey(a consent.Approval) string { return a.Turn + "/ask/" + a.ID }

// answers returns the buttons below a request. There is one to approve only if the message shows the whole call.
func answers(a consent.Approval, o approval.Offer) []message.Button {
	deny := message.Button{Text: "Deny", Value: "/deny " + a.ID, Style: message.ButtonDanger}
	switch {
	case !approval.Showable(a):
		return []message.Button{deny}
	case !approval.Brief(a):
		return []message.Button{{Text: "Show all", Value: "/show " + a.ID, Style: message.ButtonPrimary}, deny}
	}
	buttons := []message.Button{{Text: "Once", Value: "/approve " + a.ID, Style: message.ButtonPrimary}}
	if o.Session {
		text := "Session"
		if o.SessionShell != "" {
			text = "Session (like a shell)"
		}
		buttons = append(buttons, message.Button{Text: text, Value: "/approve " + a.ID + " session"})
	}
	if o.Standing {
		buttons = append(buttons, message.Button{Text: "Always (30 days)", Value: "/approve " + a.ID + " always"})
	}
	return append(buttons, deny)
}
