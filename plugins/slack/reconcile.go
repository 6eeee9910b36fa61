package main

import (
	"context"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	reconcilePages = 5
	reconcileBack  = 48 * time.Hour  // the host gives an answer up long before
	settleTime     = 5 * time.Second // after which a call that broke off has been carried out or never will be
)

// Reconcile implements channel.Reconciler: it searches for the key in the metadata of Flynn's messages.
func (p *plugin) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	if strings.TrimSpace(r.Text) == "" {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, nil // files without text carry no key
	}
	sent, err := p.find(ctx, r)
	begun, _ := p.unclear.Get(r.Key)
	wait := time.Until(begun.Add(settleTime))
	if err != nil || sent.Outcome != channel.OutcomeNotSent || wait <= 0 {
		return sent, err
	}
	select {
	case <-time.After(wait):
		return p.find(ctx, r)
	case <-ctx.Done():
		return channel.Sent{Outcome: channel.OutcomeUnknown}, ctx.Err()
	}
}

func (p *plugin) find(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	where, thread := split(r.Conversation.ID)
	var ts string
	more, err := p.pages(ctx, where, thread, stamp(time.Now().Add(-reconcileBack)), reconcilePages, func(m slack.Message) {
		if key, _ := m.Metadata.EventPayload["key"].(string); m.Metadata.EventType == metadataType && key == r.Key && r.Key != "" {
			ts = m.Timestamp
		}
	})
	switch {
	case ts != "":
		return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{messageID(where, ts)}}, nil
	case err != nil || more:
		return channel.Sent{Outcome: channel.OutcomeUnknown}, err
	}
	return channel.Sent{Outcome: channel.OutcomeNotSent}, nil
}

const maxUnclear = 1000

func newUnclear() *cache.Map[string, time.Time] {
	return &cache.Map[string, time.Time]{Most: maxUnclear}
}
