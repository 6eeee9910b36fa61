package signin

import (
	"context"
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
	address, local := "http://"+l.Listens(), true
	if origins := l.Origins(); len(origins) > 0 {
		address, local = strings.TrimRight(origins[0], "/"), false
	}
	return address + "/#sign-in=" + code, local, nil
}
