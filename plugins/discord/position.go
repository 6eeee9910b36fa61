package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/channel"
)

// place is the position up to which a channel has been delivered.
type place struct {
	Last string `json:"last"`         // id of the latest message that the host has
	DM   bool   `json:"dm,omitempty"` // a private chat, which Discord does not list
}

// kept is the content of the file.
type kept struct {
	Session session          `json:"session"`
	Places  map[string]place `json:"places"` // by channel
}

// position tracks which events the host has, and stores that on disk. The file may lag behind: some events are then delivered twice, and
// the host recognises them by their ids. It is never ahead.
type position struct {
	config  channel.Config
	writing sync.Mutex // held while the file is written

	mu      sync.Mutex
	kept    kept
	seen    int64 // number of the last event of the session
	pending int   // events delivered but not acked
	dirty   chan struct{}
}

const (
	maxPlaces = 5000
	saveEvery = 250 * time.Millisecond
)

const positionFile = "position.json"

func loadPosition(c channel.Config) (*position, error) {
	p := &position{config: c, dirty: make(chan struct{}, 1)}
	if _, err := c.ReadState(positionFile, &p.kept); err != nil {
		return nil, fmt.Errorf("%w (remove that file to begin anew)", err)
	}
	if p.kept.Places == nil {
		p.kept.Places = map[string]place{}
	}
	p.seen = p.kept.Session.Seq
	return p, nil
}

// resume returns the session to resume after a start, if there is one.
func (p *position) resume() session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.kept.Session; s.Seq < 1 || s.Self == "" {
		return session{}
	}
	return p.kept.Session
}

// begin records a new session.
func (p *position) begin(s session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept.Session, p.seen = s, s.Seq
	p.touch()
}

// passed records an event that is not delivered.
func (p *position) passed(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, seq)
	p.advance(0)
}

// handed records that an event is being delivered.
func (p *position) handed(seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, seq)
	p.pending++
}

// acked records that the host has an event. The host acks in order, so it has everything before as well. seq is 0 for
// what did not come over the gateway, last is empty for what is no message.
func (p *position) acked(sessionID string, seq int64, channelID, last string, dm bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	if sessionID == p.kept.Session.ID {
		p.advance(seq)
	}
	if last != "" {
		p.reach(channelID, last, dm)
	}
}

// advance moves the number in the file up to seq, and to the last event if nothing is on its way. p.mu is held.
func (p *position) advance(seq int64) {
	if p.pending == 0 {
		seq = p.seen
	}
	if seq > p.kept.Session.Seq {
		p.kept.Session.Seq = seq
		p.touch()
	}
}

// reach moves a channel's place up to a message. p.mu is held.
func (p *position) reach(channelID, last string, dm bool) {
	old, known := p.kept.Places[channelID]
	if known && !later(last, old.Last) {
		return
	}
	if !known && len(p.kept.Places) >= maxPlaces {
		p.forget()
	}
	p.kept.Places[channelID] = place{last, dm || old.DM}
	p.touch()
}

// forget drops the tenth of the channels that have been silent for longest. p.mu is held.
func (p *position) forget() {
	var all []string
	for id := range p.kept.Places {
		all = append(all, id)
	}
	slices.SortFunc(all, func(a, b string) int { return byAge(p.kept.Places[a].Last, p.kept.Places[b].Last) })
	for _, id := range all[:len(all)/10] {
		delete(p.kept.Places, id)
	}
}

// meet stores a private chat before anything from it is delivered, so that its missed messages can be fetched later.
func (p *position) meet(channelID, first string) error {
	n, err := strconv.ParseUint(first, 10, 64)
	if err != nil || n == 0 {
		return nil
	}
	p.mu.Lock()
	_, known := p.kept.Places[channelID]
	if !known {
		p.reach(channelID, strconv.FormatUint(n-1, 10), true)
	}
	p.mu.Unlock()
	if known {
		return nil
	}
	return p.save()
}

// start sets the place of a channel that is not known yet.
func (p *position) start(channelID, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.kept.Places[channelID]; !known {
		p.reach(channelID, last, false)
	}
}

// place returns the latest message that the host has of a channel.
func (p *position) place(channelID string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.kept.Places[channelID]
	return at.Last, ok
}

// newest returns the latest message of all channels, and the private chats.
func (p *position) newest() (last string, private []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, at := range p.kept.Places {
		if last == "" || later(at.Last, last) {
			last = at.Last
		}
		if at.DM {
			private = append(private, id)
		}
	}
	slices.Sort(private)
	return last, private
}

// later reports whether one snowflake is younger than another.
func later(a, b string) bool { return byAge(a, b) > 0 }

func byAge(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// touch schedules writing the file. p.mu is held.
func (p *position) touch() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// Run writes the file whenever something has changed, and once at the end.
func (p *position) Run(ctx context.Context, failed func(error)) {
	for ctx.Err() == nil {
		select {
		case <-p.dirty:
			if err := p.save(); err != nil {
				failed(err)
			}
			_ = backoff.Sleep(ctx, saveEvery)
		case <-ctx.Done():
		}
	}
	if err := p.save(); err != nil {
		failed(err)
	}
}

// save writes the file.
func (p *position) save() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	now := kept{p.kept.Session, maps.Clone(p.kept.Places)}
	p.mu.Unlock()
	if err := p.config.WriteState(positionFile, now); err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	return nil
}
