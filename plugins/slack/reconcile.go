package main

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	reconcilePages = 5
	reconcileBack  = 48 * time.Hour  // the host gives an answer up long before
	settleTime     = 5 * time.Second // after which a call that broke off has been carried out or never will be
)

// Reconcile implements channel.Reconciler: it looks for the key in the metadata of what Flynn sent.
func (p *plugin) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	if strings.TrimSpace(r.Text) == "" {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, nil // files without text carry no key
	}
	sent, err := p.find(ctx, r)
	wait := time.Until(p.unclear.begun(r.Key).Add(settleTime))
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

// sends remembers when keys whose message is under way were tried last.
type sends struct {
	mu    sync.Mutex
	known map[string]time.Time
}

const maxSends = 1000

func newSends() *sends { return &sends{known: map[string]time.Time{}} }

func (s *sends) begin(key string) { s.beginAt(key, time.Now()) }

func (s *sends) beginAt(key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSends {
		maps.DeleteFunc(s.known, func(_ string, old time.Time) bool { return time.Since(old) > time.Hour })
		if len(s.known) >= maxSends {
			clear(s.known)
		}
	}
	s.known[key] = at
}

func (s *sends) begun(key string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

func (s *sends) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}
