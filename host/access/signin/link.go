package signin

import (
	"context"
	"net/url"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// Links makes the links that carry codes.
type Links struct {
	Service *Service
	// Listens returns where the host listens on this machine, and Origins where people reach it from elsewhere.
	Listens func() string
	Origins func() []string
}

// Link makes a link that signs a sender in. event is the message that asks; local is true if the link leads to this machine itself.
func (l Links) Link(ctx context.Context, sender message.SenderKey, event string) (link string, local bool, err error) {
	code, err := l.Service.Offer(ctx, sender, event)
	if err != nil {
		return "", false, err
	}
	address, local := l.address()
	return address + "/#sign-in=" + code, local, nil
}

// Conversation returns the address of a conversation, for people who are signed in.
func (l Links) Conversation(channel, id string) string {
	address, _ := l.address()
	return address + "/#/" + url.QueryEscape(channel) + "/" + strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}

func (l Links) address() (address string, local bool) {
	if origins := l.Origins(); len(origins) > 0 {
		return strings.TrimRight(origins[0], "/"), false
	}
	return "http://" + l.Listens(), true
}
