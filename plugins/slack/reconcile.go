package main

import (
	"context"
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

// sends remembers keys whose message is under way, or of which only a part has arrived.
type sends struct {
	mu    sync.Mutex
	known map[string]underWay
}

type underWay struct {
	at time.Time // of the latest try
	ts string    // of the text, when it was posted
}

const maxSends = 1000

func newSends() *sends { return &sends{known: map[string]underWay{}} }

func (s *sends) begin(key string) { s.change(key, func(u *underWay) { u.at = time.Now() }) }

func (s *sends) post(key, ts string) { s.change(key, func(u *underWay) { u.ts = ts }) }

func (s *sends) change(key string, change func(*underWay)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSends {
		for old, u := range s.known {
			if time.Since(u.at) > time.Hour {
				delete(s.known, old)
			}
		}
		if len(s.known) >= maxSends {
			clear(s.known)
		}
	}
	u := s.known[key]
	change(&u)
	s.known[key] = u
}

func (s *sends) begun(key string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key].at
}

func (s *sends) posted(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key].ts
}

func (s *sends) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, key)
}
