package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
}

// Grant is a stored grant, with a description for people.
type Grant struct {
	consent.Grant
	Open   bool   `json:"open"`
	Covers string `json:"covers"`
}

// answer is a client's answer to a request for approval.
type answer struct {
	Grant   *bool  `json:"grant"`
	Scope   string `json:"scope,omitempty"` // empty, session or standing
	Span    string `json:"span,omitempty"`  // as time.ParseDuration reads it
	Pattern string `json:"pattern,omitempty"`
}

func (a answer) check() error {
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

func (a answer) span() (time.Duration, error) {
	if a.Span == "" {
		return 0, nil
	}
	return time.ParseDuration(a.Span)
}

func (s *Server) decide(ctx context.Context, id string, a answer, by string) error {
	span, err := a.span()
	switch {
	case err != nil:
		return err
	case a.Scope == "":
		return s.backend.Approvals.Decide(ctx, id, *a.Grant, by)
	}
	return s.backend.Approvals.Grant(ctx, id, a.Scope, span, a.Pattern, by)
}

func (s *Server) approvals(ctx context.Context, _ *http.Request) (any, error) {
	list, err := s.backend.Approvals.Approvals(ctx)
	return s.approvalViews(list), err
}

func (s *Server) decideOne(ctx context.Context, r *http.Request, body answer) (any, error) {
	if err := body.check(); err != nil {
		return nil, badRequest(err.Error())
	}
	err := s.decide(ctx, r.PathValue("id"), body, ownerKey(ChannelWeb))
	return map[string]any{"granted": *body.Grant, "scope": body.Scope}, err
}

func (s *Server) grants(ctx context.Context, _ *http.Request) (any, error) {
	list, err := s.backend.Approvals.Grants(ctx)
	return orEmpty(list), err
}

func (s *Server) revoke(ctx context.Context, r *http.Request, _ struct{}) (any, error) {
	return map[string]bool{"revoked": true}, s.backend.Approvals.Revoke(ctx, r.PathValue("id"), ownerKey(ChannelWeb))
}

// auditLimit is the number of audit rows that a client gets.
const auditLimit = 10_000

func (s *Server) audit(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	f := consent.AuditFilter{Kind: q.Get("kind"), Subject: q.Get("subject"), Limit: 1000}
	var err error
	if v := q.Get("limit"); v != "" {
		if f.Limit, err = strconv.Atoi(v); err != nil || f.Limit < 1 || f.Limit > auditLimit {
			return nil, badRequest(fmt.Sprintf("limit must be 1 to %d", auditLimit))
		}
	}
	if v := q.Get("since"); v != "" {
		if f.Since, err = time.Parse(time.RFC3339, v); err != nil {
			return nil, badRequest("since must be a time like 2026-11-21T12:00:00Z")
		}
	}
	rows, err := s.backend.Approvals.Audit(ctx, f)
	return orEmpty(rows), err
}
