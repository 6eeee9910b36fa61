package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/tool/consent"
)

// ErrBadGrant is returned by Approvals for a request that cannot be granted with the given scope, span and pattern.
var ErrBadGrant = errors.New("the request cannot be granted like that")

// Offer says how a request may be granted for longer than once, what such a grant covers, or why it is not possible.
type Offer struct {
	MaySession  bool   `json:"may_session"`
	MayStanding bool   `json:"may_standing"`
	NotSession  string `json:"not_session,omitempty"`
	NotStanding string `json:"not_standing,omitempty"`
	// SessionCovers and StandingCovers tell people exactly what would be allowed.
	SessionCovers  string `json:"session_covers,omitempty"`
	StandingCovers string `json:"standing_covers,omitempty"`
	// SessionShell is why a grant for the session would be as good as a shell, or empty.
	SessionShell string `json:"session_shell,omitempty"`
	// Unshown lists what affects a command besides its command line, such as a Makefile.
	Unshown []string `json:"not_shown,omitempty"`
	// NotHeld names the limits that the call's sandbox does without on this machine, or is empty.
	NotHeld string `json:"not_held,omitempty"`
}

// Grant is a stored grant, with a description for people.
type Grant struct {
	consent.Grant
	Open   bool   `json:"open"`
	Covers string `json:"covers"`
}

// Answer is a person's answer to a request for approval.
type Answer struct {
	Grant   *bool  `json:"grant"`
	Scope   string `json:"scope,omitempty" doc:"How long calls of the same kind are allowed: this one alone if it is empty, session, or standing"`
	Span    string `json:"span,omitempty" doc:"For how long, such as 720h; only with a scope"`
	Pattern string `json:"pattern,omitempty" doc:"Which commands, with * for any word; only with a scope"`
}

func (a Answer) check() error {
	_, err := a.span()
	switch {
	case a.Grant == nil:
		return errors.New(`send {"grant":true} or {"grant":false}`)
	case err != nil:
		return fmt.Errorf("span: %w", err)
	case a.Scope != "" && a.Scope != string(consent.GrantSession) && a.Scope != string(consent.GrantStanding):
		return fmt.Errorf("scope %.20q is neither session nor standing", a.Scope)
	case a.Scope == "" && (a.Span != "" || a.Pattern != ""):
		return errors.New("span and pattern need a scope")
	case !*a.Grant && a.Scope != "":
		return errors.New("a denial has no scope")
	}
	return nil
}

func (a Answer) span() (time.Duration, error) {
	if a.Span == "" {
		return 0, nil
	}
	return time.ParseDuration(a.Span)
}

// Decide answers a request as by says.
func Decide(ctx context.Context, service Approvals, id string, a Answer, by string) error {
	if err := a.check(); err != nil {
		return BadRequest(err.Error())
	}
	span, err := a.span()
	switch {
	case err != nil:
		return err
	case a.Scope == "":
		return service.Decide(ctx, id, *a.Grant, by)
	}
	return service.Grant(ctx, id, a.Scope, span, a.Pattern, by)
}
