// Package elevate is elevated mode: an owner lets the machine tools of one conversation leave the sandbox for a time.
//
// Start with Mode. Begin begins it for a sender whom the Gates of the configuration admit, End ends it, Of returns the current state,
// Elevation the facts for one call, and Run ends expired ones; each beginning, use and end adds an audit row. All state is in the store, so
// that it survives a restart. The package decides nothing about calls: tool.Enforcer does.
package elevate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// The states of a conversation; off is the lack of one.
const (
	Ask = "ask" // commands leave the sandbox after an approval
	On  = "on"  // they leave it
)

// Store keeps the state of a Mode.
type Store interface {
	consent.Elevations
	consent.Audit
}

// Config configures a Mode. Store is required.
type Config struct {
	Store Store
	// Gates returns the gates of the configuration in force. Without it nobody may begin elevated mode.
	Gates func() Gates
	Now   func() time.Time
	Log   *slog.Logger
	// Every is how often Run ends expired elevations. Default: 10 s
	Every time.Duration
}

// Mode begins, ends and records elevated mode. Safe for concurrent use.
type Mode struct{ config Config }

// New returns the elevated mode that the store knows of.
func New(c Config) (*Mode, error) {
	if c.Store == nil {
		return nil, errors.New("open elevated mode: no store given")
	}
	if c.Gates == nil {
		closed := Gates{Config: &config.Config{}}
		c.Gates = func() Gates { return closed }
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
	return &Mode{c}, nil
}

// begin elevates a conversation ("channel:conversation") for the calls of one sender and ends an earlier elevation. The time counts from
// the sender's message, so that a command that is repeated after a crash changes nothing.
func (m *Mode) begin(ctx context.Context, conversation message.ConversationKey, sender message.SenderKey, state string, said time.Time, span time.Duration) (consent.Elevation, error) {
	now := m.config.Now().UTC()
	if said.IsZero() || said.After(now) {
		said = now
	}
	said = said.UTC()
	e := consent.Elevation{Conversation: conversation, State: state, Sender: sender, Began: said, Until: said.Add(span)}
	before, err := m.config.Store.Elevation(ctx, conversation)
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
	if _, err := m.End(ctx, conversation, string(sender), "another one begins"); err != nil {
		return e, err
	}
	return e, m.config.Store.Elevate(ctx, e, consent.AuditRow{
		At: now, Kind: consent.AuditElevated, Subject: string(conversation), Actor: string(sender), Detail: state + " until " + e.Until.Format(time.RFC3339),
	})
}

// Of returns the elevation that is in force in a conversation.
func (m *Mode) Of(ctx context.Context, conversation message.ConversationKey) (consent.Elevation, bool, error) {
	e, err := m.config.Store.Elevation(ctx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	return e, m.holds(e), nil
}

// holds reports whether an elevation is in force. A clock that was set back does not prolong it.
func (m *Mode) holds(e consent.Elevation) bool {
	now := m.config.Now()
	return now.Before(e.Until) && !now.Before(e.Began)
}

// All lists the elevations in force, by conversation.
func (m *Mode) All(ctx context.Context) ([]consent.Elevation, error) {
	list, err := m.config.Store.Elevations(ctx)
	var out []consent.Elevation
	for _, e := range list {
		if m.holds(e) {
			out = append(out, e)
		}
	}
	return out, err
}

// End ends the elevation of a conversation and reports whether there was one.
func (m *Mode) End(ctx context.Context, conversation message.ConversationKey, by, why string) (bool, error) {
	e, err := m.config.Store.Elevation(ctx, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return m.end(ctx, e, by, why)
}

func (m *Mode) end(ctx context.Context, e consent.Elevation, by, why string) (bool, error) {
	err := m.config.Store.EndElevation(ctx, e.Conversation, e.Began, consent.AuditRow{
		At: m.config.Now().UTC(), Kind: consent.AuditElevatedEnd, Subject: string(e.Conversation), Actor: by, Detail: e.State + ": " + why,
	})
	if errors.Is(err, store.ErrConflict) {
		return false, nil // somebody else did
	}
	return err == nil, err
}

// Elevated records that a call leaves the sandbox. The call must not run when this fails.
func (m *Mode) Elevated(ctx context.Context, s tool.Subject, v tool.Decision) error {
	return m.config.Store.AddAudit(ctx, []consent.AuditRow{{
		At: m.config.Now().UTC(), Kind: consent.AuditElevatedUsed, Subject: string(s.Message.ConversationKey()), Actor: string(s.Message.SenderKey()),
		Session: s.Session, Agent: s.Agent, Tool: v.Tool(), Turn: s.Turn, Detail: string(v.Args),
	}})
}

// Run ends expired elevations and records their end, until ctx ends. They are not in force even before that.
func (m *Mode) Run(ctx context.Context) error {
	tick := time.NewTicker(m.config.Every)
	defer tick.Stop()
	for {
		if err := m.sweep(ctx); err != nil && ctx.Err() == nil {
			m.config.Log.Error("end elevated mode; trying again", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Mode) sweep(ctx context.Context) error {
	list, err := m.config.Store.Elevations(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if m.holds(e) {
			continue
		}
		if _, err := m.end(ctx, e, "", "its time is up"); err != nil {
			return err
		}
	}
	return nil
}
