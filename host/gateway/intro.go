package gateway

import (
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// Intro is what an empty conversation shows before its first message.
type Intro struct {
	// Notice is for the person to know before anything else, such as that the model is the demo; "" for none.
	Notice string       `json:"notice,omitempty"`
	Try    []Suggestion `json:"try,omitempty"`
}

// Suggestion is a message to try, and what it does.
type Suggestion struct {
	Text string `json:"text"`
	Does string `json:"does"`
}

// Intro returns what an empty conversation of a frontend shows.
func (s *Server) Intro(channel string) Intro {
	return s.backend.Status.Intro(channel, message.SenderKey(ownerKey(channel)))
}

// Text is the intro in lines, for a terminal; "" if there is nothing to show.
func (i Intro) Text() string {
	var lines []string
	if i.Notice != "" {
		lines = append(lines, i.Notice)
	}
	if len(i.Try) > 0 {
		lines = append(lines, "Three things to try:")
	}
	width := 0
	for _, s := range i.Try {
		width = max(width, len(s.Text))
	}
	for _, s := range i.Try {
		lines = append(lines, "  "+s.Text+strings.Repeat(" ", width-len(s.Text)+3)+s.Does)
	}
	return strings.Join(lines, "\n")
}
