package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// envelope is one message of Socket Mode.
type envelope struct {
	Type         string          `json:"type"`
	EnvelopeID   string          `json:"envelope_id"`
	Payload      json.RawMessage `json:"payload"`
	Reason       string          `json:"reason"` // of a disconnect
	RetryAttempt int             `json:"retry_attempt"`
	RetryReason  string          `json:"retry_reason"`
}

// delivery is an envelope with its connection. With missed, it means instead that there was no connection for a while.
type delivery struct {
	envelope envelope
	link     *link
	missed   bool
}

// queue passes envelopes from every connection to one worker, so that messages stay in order when the connection changes.
type queue chan delivery

func (q queue) put(ctx context.Context, d delivery) bool {
	select {
	case q <- d:
		return true
	case <-ctx.Done():
		return false
	}
}

const saveEvery = 5 * time.Second

// work delivers envelopes to the host, in order, and saves the state of conversations.
func (p *plugin) work(ctx context.Context, in channel.Inbox, q queue) {
	save := time.NewTicker(saveEvery)
	defer save.Stop()
	defer p.savePlaces()
	for {
		select {
		case d := <-q:
			if d.missed {
				p.catchUp(ctx, in)
				continue
			}
			p.take(ctx, in, d)
		case <-save.C:
			p.savePlaces()
		case <-ctx.Done():
			return
		}
	}
}

func (p *plugin) savePlaces() {
	if err := p.places.save(p.config); err != nil {
		p.log.Warn("cannot keep the list of conversations; after a restart, missed messages stay missed", "error", err)
	}
}

// take delivers one envelope to the host and acks it when the host has it. One that is irrelevant to Flynn is acked at once.
func (p *plugin) take(ctx context.Context, in channel.Inbox, d delivery) {
	id := d.envelope.EnvelopeID
	h, ok := p.read(ctx, d.envelope)
	if !ok {
		d.link.ack(id)
		return
	}
	if d.envelope.RetryAttempt > 0 {
		p.log.Debug("slack repeated an event", "event", h.event.ID, "attempt", d.envelope.RetryAttempt, "reason", d.envelope.RetryReason)
	}
	p.hand(ctx, in, h, func() { d.link.ack(id) })
}

// happening is an event with what places records about it.
type happening struct {
	event  channel.Event
	source string // "channel", "group", "im" or "mpim", where it is a message
	ts     string // of the message, if it is one
	top    bool   // not inside a thread, though it may begin one
}

// hand delivers an event and calls acked once the host has it, or has refused it. Any other event is delivered again.
func (p *plugin) hand(ctx context.Context, in channel.Inbox, h happening, acked func()) {
	_ = in.DeliverAsync(ctx, h.event, func(err error) {
		if err == nil && h.ts != "" {
			p.places.seen(h.event.Conversation.ID, h.source, h.ts)
			if where, thread := split(h.event.Conversation.ID); thread != "" && h.top {
				p.places.seen(where, h.source, h.ts)
			}
		}
		if channel.Settled(err) {
			acked()
		}
	})
}

// read turns an envelope into an event; ok is false if it holds none for Flynn.
func (p *plugin) read(ctx context.Context, e envelope) (happening, bool) {
	var (
		h   happening
		ok  bool
		err error
	)
	switch e.Type {
	case "events_api":
		h, ok, err = p.readEvent(ctx, e.Payload)
	case "interactive":
		h, ok, err = p.readPress(ctx, e.Payload)
	case "slash_commands":
		h, ok, err = p.readCommand(ctx, e.Payload)
	}
	if err != nil {
		p.log.Warn("cannot read an envelope", "type", e.Type, "error", err)
	}
	return h, ok && err == nil
}
