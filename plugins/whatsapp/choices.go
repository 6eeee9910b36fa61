package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// choices are buttons that could not be shown as such: they were written out with numbers, and an answer that is one of the
// numbers or names counts as a press.
type choices struct {
	mu      sync.Mutex
	offered map[string]offer // by conversation
}

type offer struct {
	message string
	buttons []channel.Button
	until   time.Time
}

const (
	maxOffers = 1000
	offerKept = 24 * time.Hour
)

func newChoices() *choices { return &choices{offered: map[string]offer{}} }

// written is text with the buttons below.
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.offered) >= maxOffers {
		clear(c.offered)
	}
	c.offered[conversation] = offer{message, buttons, time.Now().Add(offerKept)}
}

// press tells which button an answer means. Each offer is taken once.
func (c *choices) press(conversation, text string) (b channel.Button, message string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.offered[conversation]
	if !ok || time.Now().After(o.until) {
		return b, "", false
	}
	text = strings.TrimSpace(text)
	for i, b := range o.buttons {
		if text == strconv.Itoa(i+1) || strings.EqualFold(text, strings.TrimSpace(b.Text)) {
			return b, o.message, true
		}
	}
	return b, "", false
}

// taken forgets an offer, once the host has the press.
func (c *choices) taken(conversation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.offered, conversation)
}

// pressed turns a message that answers an offer into the press of its button.
func (c *choices) pressed(e channel.Event) channel.Event {
	if e.Kind != channel.EventMessage || len(e.Attachments) > 0 {
		return e
	}
	if b, message, ok := c.press(e.Conversation.ID, e.Text); ok {
		e.Kind, e.Text, e.TargetID, e.Addressed = channel.EventButton, b.Value, message, true
	}
	return e
}
