package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// choices are buttons that WhatsApp cannot show. They are written out with numbers, and an answer with a number or a name counts as a press.
type choices struct {
	offered cache.Map[string, offer] // by conversation
}

type offer struct {
	message string
	buttons []channel.Button
}

const (
	maxOffers = 1000
	offerKept = 24 * time.Hour
)

func newChoices() *choices { return &choices{cache.Map[string, offer]{Most: maxOffers}} }

// written returns text with the buttons below it.
func written(text string, buttons []channel.Button) string {
	if len(buttons) == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(text, "\n"))
	b.WriteString("\n\n")
	for i, c := range buttons {
		fmt.Fprintf(&b, "*%d* %s\n", i+1, c.Text)
	}
	b.WriteString("Answer with the number.")
	return b.String()
}

// offer remembers the buttons of the latest message of a conversation.
func (c *choices) offer(conversation, message string, buttons []channel.Button) {
	c.offered.Set(conversation, offer{message, buttons}, offerKept)
}

// pressed turns a message that answers an offer into the press of its button.
func (c *choices) pressed(e channel.Event) channel.Event {
	if e.Kind != channel.EventMessage || len(e.Attachments) > 0 {
		return e
	}
	o, _ := c.offered.Get(e.Conversation.ID)
	text := strings.TrimSpace(e.Text)
	for i, b := range o.buttons {
		if text == strconv.Itoa(i+1) || strings.EqualFold(text, strings.TrimSpace(b.Text)) {
			e.Kind, e.Text, e.TargetID, e.Addressed = channel.EventButton, b.Value, o.message, true
			break
		}
	}
	return e
}

// deliver delivers one event, as the press of a button if it is one. Each offer is used once, when the host has the press.
func (c *choices) deliver(ctx context.Context, in channel.Inbox, e channel.Event) (channel.Event, error) {
	e = c.pressed(e)
	err := in.Deliver(ctx, e)
	if err == nil && e.Kind == channel.EventButton {
		c.offered.Delete(e.Conversation.ID)
	}
	return e, err
}
