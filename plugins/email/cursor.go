package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/flynnhost/flynn/sdk/channel"
)

// position is a mail in the mailbox: everything up to it was seen.
type position struct {
	Validity uint32    `json:"uid_validity"`
	UID      imap.UID  `json:"uid"`
	At       time.Time `json:"at"` // date of the latest mail
	// Since excludes mails before that day: the server has renumbered the mailbox, and they were delivered under other numbers.
	Since time.Time `json:"since,omitzero"`
}

// cursor is how far the mailbox was read, and how far the host has it. Reading does not wait for the host: mails are delivered as they
// arrive, and the host acks them in order.
type cursor struct {
	mu            sync.Mutex
	handed, acked position
	pending       int           // delivered but not acked
	lost          bool          // the host refused one, so later mails must not advance acked
	moved         chan struct{} // one signal for the saver
}

// restart begins at a position.
func (c *cursor) restart(at position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handed, c.acked, c.lost = at, at, false
}

// next returns where to continue reading; ok is false if the host has to be asked for that.
func (c *cursor) next() (at position, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handed, c.handed.Validity != 0 && !c.lost
}

// hand records a mail that is being delivered or skipped.
func (c *cursor) hand(at position, skipped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.At.Before(c.handed.At) {
		at.At = c.handed.At // a mail that was moved here keeps its date
	}
	c.handed = at
	switch {
	case !skipped:
		c.pending++
	case c.pending == 0 && !c.lost: // otherwise it is passed with the next mail
		c.advance(at)
	}
}

// done records the host's answer to the oldest mail that is pending.
func (c *cursor) done(at position, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if c.lost = c.lost || err != nil; !c.lost && at.Validity == c.acked.Validity {
		c.advance(at)
	}
}

func (c *cursor) advance(at position) {
	if at.At.Before(c.acked.At) {
		at.At = c.acked.At
	}
	c.acked = at
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

func (c *cursor) position() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked
}

const (
	positionKey = "position"
	saveTime    = 5 * time.Second
)

// save stores the position on the host whenever it changes, and once at the end.
func (p *plugin) save(ctx context.Context) {
	for {
		select {
		case <-p.cursor.moved:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), channel.ErrLeaseExpired) {
				return // the host may be suspended, and the next Run goes on from memory
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
			defer cancel()
			if at := p.cursor.position(); at.Validity != 0 {
				p.trySave(last, at)
			}
			return
		}
		p.trySave(ctx, p.cursor.position())
	}
}

// trySave may fail: the host recognises mails that are read again after a restart.
func (p *plugin) trySave(ctx context.Context, at position) {
	if err := p.remember(ctx, at); err != nil {
		p.log.Warn("record how far the mailbox was read", "error", err)
	}
}

func (p *plugin) remember(ctx context.Context, at position) error {
	value, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return p.Host.Set(ctx, positionKey, value)
}

// remembered returns the position that the host has.
func (p *plugin) remembered(ctx context.Context) (at position, known bool, err error) {
	value, known, err := p.Host.Get(ctx, positionKey)
	if err != nil || !known {
		return at, false, err
	}
	if err := json.Unmarshal(value, &at); err != nil {
		return at, false, fmt.Errorf("read how far the mailbox was read: %w", err)
	}
	return at, true, nil
}
