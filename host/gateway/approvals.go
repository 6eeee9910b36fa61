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

// ErrBadGrant is returned by Approvals for a request that cannot be granted as was asked for.
var ErrBadGrant = errors.New("the request cannot be granted like that")

// Offer says how a request may be granted for longer than once, what that covers, and why it may not.
type Offer struct {
	MaySession  bool   `json:"may_session"`
	MayStanding bool   `json:"may_standing"`
	NotSession  string `json:"not_session,omitempty"`
	NotStanding string `json:"not_standing,omitempty"`
	// SessionCovers and StandingCovers are for people: exactly what would be allowed.
	SessionCovers  string `json:"session_covers,omitempty"`
	StandingCovers string `json:"standing_covers,omitempty"`
	// SessionShell is why a grant for the session is as good as a shell, or empty.
	SessionShell string `json:"session_shell,omitempty"`
	// Unshown says what decides about a command line beside the line itself.
	Unshown []string `json:"not_shown,omitempty"`
}

// Grant is a lease as people see it.
type Grant struct {
	consent.Grant
	Open   bool   `json:"open"`
	Covers string `json:"covers"`
}

// answer is a decision of a client's.
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
		return errors.New(`say {"grant":true} or {"grant":false}`)
	case err != nil:
		return fmt.Errorf("span: %w", err)
	case a.Scope != "" && a.Scope != string(consent.GrantSession) && a.Scope != string(consent.GrantStanding):
		return fmt.Errorf("scope %.20q is none of session and standing", a.Scope)
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

func (s *Server) approvals(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	list, err := s.backend.Approvals.Approvals(ctx)
	s.answer(w, s.approvalViews(list), err)
}

func (s *Server) decideOne(w http.ResponseWriter, r *http.Request) {
	var body answer
	if !readBody(w, r, &body) {
		return
	}
	if err := body.check(); err != nil {
		writeError(w, http.StatusBadRequest, CodeBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	err := s.decide(ctx, r.PathValue("id"), body, ownerKey(ChannelWeb))
	s.answer(w, map[string]any{"granted": *body.Grant, "scope": body.Scope}, err)
}

func (s *Server) grants(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	list, err := s.backend.Approvals.Grants(ctx)
	s.answer(w, orEmpty(list), err)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	var body struct{}
	if !readBody(w, r, &body) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	err := s.backend.Approvals.Revoke(ctx, r.PathValue("id"), ownerKey(ChannelWeb))
	s.answer(w, map[string]bool{"revoked": true}, err)
}

// auditLimit is the number of audit rows that a client gets.
const auditLimit = 10_000

func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f := consent.AuditFilter{Kind: q.Get("kind"), Subject: q.Get("subject"), Limit: 1000}
	var err error
	if v := q.Get("limit"); v != "" {
		if f.Limit, err = strconv.Atoi(v); err != nil || f.Limit < 1 || f.Limit > auditLimit {
			writeError(w, http.StatusBadRequest, CodeBadRequest, fmt.Sprintf("limit must be 1 to %d", auditLimit))
			return
		}
	}
	if v := q.Get("since"); v != "" {
		if f.Since, err = time.Parse(time.RFC3339, v); err != nil {
			writeError(w, http.StatusBadRequest, CodeBadRequest, "since must be a time like 2026-11-21T12:00:00Z")
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	rows, err := s.backend.Approvals.Audit(ctx, f)
	s.answer(w, orEmpty(rows), err)
}
