package host

import (
	"context"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// Proved implements command.Rules.
func (r inForce) Proved(channel string, sender message.SenderKey) bool {
	return r.h.current.Load().Roles.Proof(channel, sender).Counts()
}

// admitted returns the role of a person at the console; ok is false if his messages there are not answered.
func (r inForce) admitted(sender message.SenderKey) (role string, ok bool) {
	g := r.h.current.Load()
	m := message.Message{
		Channel: message.ConsoleChannel, Conversation: message.Conversation{ID: message.ConsoleConversation(sender, "any"), Kind: message.DM},
		Sender: message.Sender{ID: string(sender)}, Addressed: true,
	}
	if g.gate.Refusal(m) != "" {
		return "", false
	}
	return g.Roles.Of(m.Channel, sender), true
}

// console implements command.Console.
type console struct{ h *Host }

// Link implements command.Console.
func (c console) Link(ctx context.Context, sender message.SenderKey, event string) (link string, local bool, err error) {
	code, err := c.h.signIns.Offer(ctx, sender, event)
	if err != nil {
		return "", false, err
	}
	address, local := "http://"+c.h.gateway.Addr().String(), true
	if origins := c.h.current.Load().config.Gateway.Origins; len(origins) > 0 {
		address, local = strings.TrimRight(origins[0], "/"), false
	}
	return address + "/#sign-in=" + code, local, nil
}
