// Package elevate keeps elevated mode: for a time, machine tools of one conversation may leave the sandbox when its owner says so.
//
// Start with Desk. Begin and End write what was said, Of tells what holds now, Run ends what is over; each of them, and each use,
// leaves an audit row. Nothing lives in memory alone, so a restart keeps the time that is left. The package decides nothing
// about calls: tool.Enforcer asks what holds, and has gates of its own.
package elevate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// The states of a conversation; off is that there is none.
const (
	Ask = "ask" // commands leave the sandbox after an approval
	On  = "on"  // they leave it
)

// Store is what a Desk keeps.
type Store interface {
	store.Elevations
	store.Audit
}

// Config says how a Desk works. Store is required.
type Config struct {
	Store Store
	Now   func() time.Time
	Log   *slog.Logger
	// Every is how often Run looks for what is over. 10 s
	Every time.Duration
}

// Desk begins and ends elevated mode. Safe for concurrent use.
type Desk struct{ config Config }

// New returns a Desk over the store.
func New(c Config) (*Desk, error) {
	if c.Store == nil {
		return nil, errors.New("open elevated mode: no store given")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Every <= 0 {
		c.Every = 10 * time.Second
	}
	return &Desk{c}, nil
}

// Begin lets a conversation ("channel:conversation") be elevated for calls of one sender. The caller has made sure that the sender
// may. What held before ends. The time counts from when it was said, so that a command which is carried out again after a crash changes
// nothing.
func (d *Desk) Begin(ctx context.Context, conversation, sender, state string, said time.Time, span time.Duration) (store.Elevation, error) {
	now := d.config.Now().UTC()
	if said.IsZero() || said.After(now) {
		said = now
	}
	said = said.UTC()
	e := store.Elevation{Conversation: conversation, State: state, Sender: sender, Began: said, Until: said.Add(span)}
	before, err := d.config.Store.Elevation(ctx, conversation)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return e, err
	case err == nil && before.Began.Equal(said) && before.Sender == sender:
		return before, nil
	case state != Ask && state != On:
		return e, fmt.Errorf("elevate %s: no state %q", conversation, state)
	case !now.Before(e.Until) || sender == "":
		return e, fmt.Errorf("elevate %s: for nobody, or for no time", conversation)
	}
	if _, err := d.End(ctx, conversation, sender, "another one begins"); err != nil {
		return e, err
	}
	return e, d.config.Store.Elevate(ctx, e, store.AuditRow{
		At: now, Kind: store.AuditElevated, Subject: conversation, Actor: sender, Detail: state + " until " + e.Until.Format(time.RFC3339),
	})
}

// Of returns what holds in a conversation now.
func (d *Desk) Of(ctx context.Context, conversation string) (store.Elevation, bool, error) {
	e, err := d.config.Store.Elevation(ctx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	return e, d.holds(e), nil
}

// holds refuses a clock that was set back as well: nobody said that it should last longer.
func (d *Desk) holds(e store.Elevation) bool {
	now := d.config.Now()
	return now.Before(e.Until) && !now.Before(e.Began)
}

// All lists what holds now, by conversation.
func (d *Desk) All(ctx context.Context) ([]store.Elevation, error) {
	list, err := d.config.Store.Elevations(ctx)
	var out []store.Elevation
	for _, e := range list {
		if d.holds(e) {
			out = append(out, e)
		}
	}
	return out, err
}

// End ends what holds in a conversation and reports whether anything did.
func (d *Desk) End(ctx context.Context, conversation, by, why string) (bool, error) {
	e, err := d.config.Store.Elevation(ctx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return d.end(ctx, e, by, why)
}

func (d *Desk) end(ctx context.Context, e store.Elevation, by, why string) (bool, error) {
	err := d.config.Store.EndElevation(ctx, e.Conversation, e.Began, store.AuditRow{
		At: d.config.Now().UTC(), Kind: store.AuditElevatedEnd, Subject: e.Conversation, Actor: by, Detail: e.State + ": " + why,
	})
	if errors.Is(err, store.ErrConflict) {
		return false, nil // somebody else did
	}
	return err == nil, err
}

// Use is a call that leaves the sandbox.
type Use struct{ Conversation, Sender, Session, Agent, Tool, Turn, Detail string }

// Used writes down that a call leaves the sandbox. It must not run when this fails.
func (d *Desk) Used(ctx context.Context, u Use) error {
	return d.config.Store.AddAudit(ctx, []store.AuditRow{{
		At: d.config.Now().UTC(), Kind: store.AuditElevatedUsed, Subject: u.Conversation, Actor: u.Sender, Session: u.Session, Agent: u.Agent, Tool: u.Tool,
		Turn: u.Turn, Detail: u.Detail,
	}})
}

// Run ends what is over, until ctx ends. What is over does not hold before that either; Run writes it down.
func (d *Desk) Run(ctx context.Context) error {
	tick := time.NewTicker(d.config.Every)
	defer tick.Stop()
	for {
		if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
			d.config.Log.Error("end elevated mode; trying again", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *Desk) sweep(ctx context.Context) error {
	list, err := d.config.Store.Elevations(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if d.holds(e) {
			continue
		}
		if _, err := d.end(ctx, e, "", "its time is up"); err != nil {
			return err
		}
	}
	return nil
}
