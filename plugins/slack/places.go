package main

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	maxPlaces  = 500
	maxLocated = 5000
	placesFile = "places.json"
)

// places remembers conversations: the latest message that the host has of each, and the threads in which Flynn takes part. catchUp reads
// them after a gap, including one between two processes.
type places struct {
	mu    sync.Mutex
	known map[string]place // by conversation id
	dirty bool
	// located has the conversations of recent messages by "channel:ts", which is all that a reaction names.
	located cache.Map[string, channel.Conversation]
}

type place struct {
	Kind   string `json:"kind,omitempty"` // as in channel_type
	Seen   string `json:"seen,omitempty"` // ts of the latest message that the host has
	Called bool   `json:"called,omitempty"`
}

func newPlaces() *places {
	return &places{known: map[string]place{}, located: cache.Map[string, channel.Conversation]{Most: maxLocated}}
}

// seen records that the host has a message. All times of Slack have the same length, so that they sort as text.
func (p *places) seen(conversation, kind, ts string) {
	p.change(conversation, func(at *place) {
		at.Kind, at.Seen = kind, max(at.Seen, ts)
	})
}

// call records that Flynn takes part in a thread.
func (p *places) call(conversation string) {
	p.change(conversation, func(at *place) { at.Called = true })
}

func (p *places) change(conversation string, change func(*place)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.known[conversation]
	now := before
	change(&now)
	if now == before {
		return
	}
	p.known[conversation], p.dirty = now, true
	if len(p.known) > maxPlaces {
		p.forget()
	}
}

// forget drops the tenth of the conversations that was quiet for longest. p.mu is held.
func (p *places) forget() {
	for _, id := range p.latest()[maxPlaces*9/10:] {
		delete(p.known, id)
	}
}

// latest lists conversations, the last to speak first. p.mu is held.
func (p *places) latest() []string {
	return slices.SortedFunc(maps.Keys(p.known), func(a, b string) int {
		return strings.Compare(p.known[b].Seen, p.known[a].Seen)
	})
}

func (p *places) isCalled(conversation string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[conversation].Called
}

// list returns the known conversations, the last to speak first.
func (p *places) list() (ids []string, known map[string]place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest(), maps.Clone(p.known)
}

func (p *places) locate(where, ts string, c channel.Conversation) {
	p.located.Set(where+":"+ts, c, 0)
}

// where returns the conversation of a message; of one long ago, that of its channel.
func (p *places) where(where, ts string) channel.Conversation {
	if c, ok := p.located.Get(where + ":" + ts); ok {
		return c
	}
	if strings.HasPrefix(where, "D") {
		return channel.Conversation{ID: where, Kind: channel.DM}
	}
	return channel.Conversation{ID: where, Kind: channel.Group}
}

// load reads what an earlier process saved, and leaves out malformed entries.
func (p *places) load(c channel.Config) error {
	known := map[string]place{}
	if _, err := c.ReadState(placesFile, &known); err != nil {
		return err
	}
	maps.DeleteFunc(known, func(id string, was place) bool { return id == "" || was.Seen != "" && at(was.Seen).IsZero() })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	if len(known) > maxPlaces {
		p.forget()
	}
	return nil
}

// save writes the conversations if something has changed.
func (p *places) save(c channel.Config) error {
	p.mu.Lock()
	known, dirty := maps.Clone(p.known), p.dirty
	p.dirty = false
	p.mu.Unlock()
	if !dirty {
		return nil
	}
	err := c.WriteState(placesFile, known)
	if err != nil {
		p.mu.Lock()
		p.dirty = true
		p.mu.Unlock()
	}
	return err
}
