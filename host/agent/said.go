package agent

import (
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// newUserStep records the messages that a turn answers.
func newUserStep(rows []mailbox.InboxRow, files map[int64][]message.File) transcript.UserStep {
	var u transcript.UserStep
	for _, r := range rows {
		m := r.Message
		u.Group = m.Conversation.Kind != message.DM
		u.Said = append(u.Said, transcript.Said{Event: m.EventID, By: by(m), Text: told(m), At: m.ReceivedAt, Files: files[r.ID]})
	}
	return u
}

// speaker names a sender in a group by the display name, which he can choose freely, and the id, which he cannot.
func speaker(s message.Sender) string {
	name, id := word(s.Name), word(s.ID)
	if name == "" || strings.EqualFold(name, id) {
		return id
	}
	return name + " " + id
}

// word removes the characters of a text that are invisible or could be mistaken for the frame around it.
func word(text string) string {
	out := make([]rune, 0, len(text))
	for _, c := range text {
		if unicode.IsGraphic(c) && !unicode.IsSpace(c) && c != '<' && c != '>' && len(out) < 64 {
			out = append(out, c)
		}
	}
	return string(out)
}
