package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/shell"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Lease is how far an approval reaches. Its zero value is this call alone.
type Lease struct {
	Scope consent.GrantScope
	// For is how long a standing grant is valid. Default: StandingTime
	For time.Duration
	// Pattern is a command line with stars, each for one argument; without it the lease covers exactly the shown arguments.
	Pattern string
}

// How long grants are valid.
const (
	SessionTime  = 24 * time.Hour
	StandingTime = 30 * 24 * time.Hour
	MaxStanding  = 365 * 24 * time.Hour
)

// ErrNoLease is returned for a request that can be granted once only, or not with that pattern.
var ErrNoLease = errors.New("this call cannot be allowed like that")

// ErrNoGrant is returned for a grant that does not exist or has ended.
var ErrNoGrant = errors.New("there is no such grant, or it has ended")

// Grant answers a request with a lease: calls that it covers, including the waiting one, need no approval until it ends. Repeating the same
// answer changes nothing; an approval of one call cannot be turned into a lease.
func (s *Service) Grant(ctx context.Context, id string, l Lease, decider string) error {
	if l.Scope == "" && l.Pattern == "" {
		return s.Decide(ctx, id, true, decider)
	}
	a, err := s.decidable(ctx, id, decider)
	if err != nil {
		return err
	}
	if a.State != consent.ApprovalPending {
		return leased(a, l.Scope)
	}
	if s.expired(a) {
		return s.expire(ctx, a)
	}
	if err := s.self(a, decider); err != nil {
		return err
	}
	g, err := s.lease(a, l)
	if err != nil {
		return fmt.Errorf("decide request %s: %w", id, err)
	}
	g.Granter = decider
	err = s.config.Grants.GrantApproval(ctx, g, consent.AuditRow{
		At: g.Created, Kind: consent.AuditGranted, Subject: g.ID, Actor: decider, Session: g.Session, Agent: g.Agent, Tool: g.Tool, Turn: a.Turn,
		Detail: Covers(g),
	})
	if errors.Is(err, store.ErrConflict) { // somebody else was faster
		if a, err = s.config.Store.Approval(ctx, id); err != nil {
			return fmt.Errorf("find request %s: %w", id, err)
		}
		return leased(a, l.Scope)
	}
	if err != nil {
		return err
	}
	a.State, a.Decider, a.Decided, a.Scope = consent.ApprovalConsumed, decider, g.Created, l.Scope
	s.wake()
	s.config.Notify(a)
	return nil
}

// leased compares a lease with the recorded answer.
func leased(a consent.Approval, scope consent.GrantScope) error {
	if granted := a.State == consent.ApprovalGranted || a.State == consent.ApprovalConsumed; granted && a.Scope != scope {
		return fmt.Errorf("decide request %s: %w: %s approved it with another scope", a.ID, ErrDecided, a.Decider)
	}
	return answered(a, true)
}

// lease makes the grant for a request. Its time counts from the request, so that it is the one that was shown.
func (s *Service) lease(a consent.Approval, l Lease) (consent.Grant, error) {
	now := s.config.Now().UTC()
	g := consent.Grant{
		ID: a.ID, Scope: l.Scope, Tool: a.Tool, Args: a.Args, Agent: a.Agent, Session: a.Session, Dir: a.Dir, Where: a.Where, Sandbox: a.Sandbox,
		Policy: a.Policy, Requester: a.Requester, Reasons: a.Reasons, Created: now,
		Expires: a.Created.UTC().Add(SessionTime),
	}
	if s.config.Grants == nil {
		return g, fmt.Errorf("%w: this host keeps no grants", ErrNoLease)
	}
	switch l.Scope {
	case consent.GrantSession:
		if l.For != 0 {
			return g, fmt.Errorf("%w: a grant for the session has no time of its own", ErrNoLease)
		}
	case consent.GrantStanding:
		if l.For == 0 {
			l.For = StandingTime
		}
		if l.For < time.Hour || l.For > MaxStanding {
			return g, fmt.Errorf("%w: it has to last from an hour to %d days", ErrNoLease, int(MaxStanding.Hours()/24))
		}
		g.Expires = a.Created.UTC().Add(l.For)
	default:
		return g, fmt.Errorf("%w: a scope is session or standing, not %q", ErrNoLease, l.Scope)
	}
	if why := refuses(a, l.Scope); why != "" {
		return g, fmt.Errorf("%w: %s", ErrNoLease, why)
	}
	return g, s.narrow(&g, a.Reach, l)
}

// narrow binds a grant to command lines and programs, if its call has any.
func (s *Service) narrow(g *consent.Grant, reach string, l Lease) error {
	if reach != ReachShell {
		if l.Pattern != "" {
			return fmt.Errorf("%w: only command lines have patterns", ErrNoLease)
		}
		return nil
	}
	line, err := commandLine(g.Args)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoLease, err)
	}
	if l.Pattern != "" {
		p, err := shell.ParsePattern(l.Pattern)
		if err != nil {
			return fmt.Errorf("%w: the pattern is not understood: %w", ErrNoLease, err)
		}
		if !p.Match(line) {
			return fmt.Errorf("%w: the pattern does not cover this call", ErrNoLease)
		}
		if _, err := programs(p.Line(), g.Where, g.Dir); err != nil {
			return fmt.Errorf("%w: %w", ErrNoLease, err)
		}
		if why := p.Lasting(); why != "" {
			return fmt.Errorf("%w: %s", ErrNoLease, why)
		}
		g.Pattern = l.Pattern
	}
	g.Programs, err = programs(line, g.Where, g.Dir)
	if err != nil && l.Scope == consent.GrantSession && l.Pattern == "" {
		return nil // exactly this line, which Offer calls as good as a shell
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoLease, err)
	}
	return nil
}

// Offer says which leases a request may be answered with: what each covers, for people, or why it is not possible.
type Offer struct {
	Session, Standing             bool
	SessionCovers, StandingCovers string
	NotSession, NotStanding       string
	// SessionShell is why a grant for the session is as good as a shell: the programs of the line can change while the grant is valid. It is
	// empty if they cannot.
	SessionShell string
	// Unshown names the files that a command line depends on without naming them: "Makefile (make)".
	Unshown []string
	// NotHeld names the limits that the call's sandbox does without; "" if there are none.
	NotHeld string
}

// Offer returns the possible leases of a request.
func (s *Service) Offer(a consent.Approval) Offer {
	may := func(scope consent.GrantScope) (ok bool, covers, why string) {
		g, err := s.lease(a, Lease{Scope: scope})
		if err == nil {
			return true, Covers(g), ""
		}
		return false, "", strings.TrimPrefix(err.Error(), ErrNoLease.Error()+": ")
	}
	var o Offer
	o.Session, o.SessionCovers, o.NotSession = may(consent.GrantSession)
	o.Standing, o.StandingCovers, o.NotStanding = may(consent.GrantStanding)
	if o.Session && !o.Standing && a.Reach == ReachShell {
		o.SessionShell = o.NotStanding
	}
	var call struct{ Command *string }
	if a.Reach == ReachShell && json.Unmarshal(a.Args, &call) == nil && call.Command != nil {
		o.Unshown = shell.Unshown(*call.Command, a.Where != onHost)
	}
	if a.Where != "" && a.Where != onHost && s.config.Sandboxes != nil {
		o.NotHeld = s.config.Sandboxes.NotHeld(a.Where)
	}
	return o
}

// Covering finds an open grant that covers a call. It changes nothing.
func (s *Service) Covering(ctx context.Context, ask Ask) (consent.Grant, bool, error) {
	if s.config.Grants == nil {
		return consent.Grant{}, false, nil
	}
	now := s.config.Now()
	open, err := s.config.Grants.OpenGrants(ctx, ask.Agent, ask.Tool, now)
	if err != nil {
		return consent.Grant{}, false, fmt.Errorf("look for grants: %w", err)
	}
	i := slices.IndexFunc(open, func(g consent.Grant) bool { return g.Open(now) && misses(g, ask) == "" })
	if i < 0 {
		return consent.Grant{}, false, nil
	}
	return open[i], true, nil
}

// Use finds a grant that covers the call that is about to run, and counts the use. A grant that ends meanwhile covers nothing.
func (s *Service) Use(ctx context.Context, ask Ask) (consent.Grant, bool, error) {
	g, ok, err := s.Covering(ctx, ask)
	if !ok || err != nil {
		return g, false, err
	}
	err = s.config.Grants.UseGrant(ctx, g.ID, consent.AuditRow{
		At: s.config.Now().UTC(), Kind: consent.AuditGrantUsed, Subject: g.ID, Actor: string(ask.Requester), Session: ask.Session, Agent: ask.Agent, Tool: ask.Tool,
		Turn: ask.Turn, Detail: visible(string(ask.Args)),
	})
	if errors.Is(err, store.ErrConflict) {
		return g, false, nil
	}
	return g, err == nil, err
}

// maxListed bounds the grants that are listed.
const maxListed = 1000

// Grants lists the latest grants, oldest first, those that have ended among them.
func (s *Service) Grants(ctx context.Context) ([]consent.Grant, error) {
	if s.config.Grants == nil {
		return nil, nil
	}
	return s.config.Grants.ListGrants(ctx, maxListed)
}

// Revoke ends a grant. Ending it twice is no error.
func (s *Service) Revoke(ctx context.Context, id, by string) error {
	if s.config.Grants == nil {
		return fmt.Errorf("revoke %q: %w", id, ErrNoGrant)
	}
	g, err := s.config.Grants.Grant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("revoke %q: %w", id, ErrNoGrant)
	}
	if err != nil {
		return err
	}
	now := s.config.Now().UTC()
	if !g.Open(now) {
		return nil
	}
	err = s.config.Grants.EndGrant(ctx, id, consent.AuditRow{
		At: now, Kind: consent.AuditGrantEnded, Subject: id, Actor: by, Session: g.Session, Agent: g.Agent, Tool: g.Tool, Detail: Covers(g),
	})
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// EndSessions ends the grants for sessions of a conversation ("channel:conversation"), as when a new session begins there. They would not
// cover calls of the new session, which has another key.
func (s *Service) EndSessions(ctx context.Context, scope, by string) error {
	grants, err := s.Grants(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Scope != consent.GrantSession || g.Session.Parse().Scope != scope || !g.Open(s.config.Now()) {
			continue
		}
		if err := s.Revoke(ctx, g.ID, by); err != nil {
			return err
		}
	}
	return nil
}
