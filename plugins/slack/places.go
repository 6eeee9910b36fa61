package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	maxPlaces  = 500
	maxLocated = 5000
	placesFile = "places.json"
)

// places remembers conversations: up to which message the host has them, and which threads Flynn was called into. It is what catchUp
// asks about after a gap, also one between two processes.
type places struct {
	mu    sync.Mutex
	known map[string]place // by conversation id
	dirty bool
	// located tells the conversation of recent messages by "channel:ts", for a reaction names only those.
	located map[string]channel.Conversation
}

type place struct {
	Kind   string `json:"kind,omitempty"` // as in channel_type
	Seen   string `json:"seen,omitempty"` // ts of the latest message that the host has
	Called bool   `json:"called,omitempty"`
}

func newPlaces() *places {
	return &places{known: map[string]place{}, located: map[string]channel.Conversation{}}
}

// seen takes note that the host has a message. Times of Slack are as long as each other, so that they order as text.
func (p *places) seen(conversation, kind, ts string) {
	p.change(conversation, func(at *place) {
		at.Kind, at.Seen = kind, max(at.Seen, ts)
	})
}

// call takes note that Flynn takes part in a thread.
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

// forget drops the tenth that was quiet for longest. p.mu is held.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.located) >= maxLocated {
		clear(p.located)
	}
	p.located[where+":"+ts] = c
}

// where returns the conversation of a message; of one long ago, that of its channel.
func (p *places) where(where, ts string) channel.Conversation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.located[where+":"+ts]; ok {
		return c
	}
	if strings.HasPrefix(where, "D") {
		return channel.Conversation{ID: where, Kind: channel.DM}
	}
	return channel.Conversation{ID: where, Kind: channel.Group}
}

// load reads what an earlier process kept. It is no trusted file: what makes no sense is left out.
func (p *places) load(dir string) error {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, placesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read conversations: %w", err)
	}
	known := map[string]place{}
	if err := json.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("read conversations: %w", err)
	}
	maps.DeleteFunc(known, func(id string, at1 place) bool {
		return id == "" || at1.Seen != "" && at(at1.Seen).IsZero()
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	if len(known) > maxPlaces {
		p.forget()
	}
	return nil
}

// save writes them when something changed. A crash leaves the old file or the new one.
func (p *places) save(dir string) error {
	if dir == "" {
		return nil
	}
	p.mu.Lock()
	if !p.dirty {
		p.mu.Unlock()
		return nil
	}
	text, err := json.Marshal(p.known)
	p.dirty = false
	p.mu.Unlock()
	if err == nil {
		next := filepath.Join(dir, placesFile+".new")
		if err = os.WriteFile(next, text, 0o600); err == nil {
			err = os.Rename(next, filepath.Join(dir, placesFile))
		}
	}
	if err != nil {
		p.mu.Lock()
		p.dirty = true
		p.mu.Unlock()
		return fmt.Errorf("keep conversations: %w", err)
	}
	return nil
}
