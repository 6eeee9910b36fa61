// Package approval lets a person decide about a tool call: the request is durable, is shown in
// full and is answered once. The answer holds for exactly the call that was shown, or for later calls as they were shown.
//
// Start with Service: Request writes the request, Wait blocks until a person has decided or the time
// is up, Consume spends the grant immediately before the call runs. A person may also grant a lease (lease.go): Use finds
// the lease that covers a call. All state is in the store, so a restart loses no request and no
// answer. The package does not decide which calls need a person; tool.Enforcer does.
package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Config configures a Service. Only Store is required.
type Config struct {
	Store consent.Approvals
	// Grants keeps leases; without it there are none.
	Grants consent.Grants
	// Notify is called with every request and after every committed change of its state. It may be called twice with
	// the same state, as after a restart, and identifies it by ID and State. It must not block for long.
	Notify func(consent.Approval)
	// SelfApprove reports whether a requester ("instance:platform-id") may grant his own requests: true for the
	// local frontends, where requester and owner are one. Nil: nobody may.
	SelfApprove func(requester message.SenderKey) bool
	// Sandboxes tells what a sandbox does not hold. It may be nil.
	Sandboxes Sandboxes
	// Lifetime is how long a request waits, and a grant is valid. Default: 15 min
	Lifetime time.Duration
	Now      func() time.Time
}

// Sandboxes describes the sandboxes.
type Sandboxes interface {
	// NotHeld names the limits that a sandbox does without, in one line; "" if there are none.
	NotHeld(where string) string
}

// Errors of a decision or of its use.
var (
	ErrDecided = errors.New("the request has another answer already")
	ErrExpired = errors.New("the request has expired")
	ErrSelf    = errors.New("the person who asked cannot grant the request")
	ErrDrift   = errors.New("the call is not the one that was approved")
	ErrUsed    = errors.New("the approval was used already, or never granted")
	ErrGone    = errors.New("the call of the request has ended")
	ErrMany    = errors.New("too many requests of this sender wait for an answer")
)

// Binding holds the facts of a call to which an approval is bound.
type Binding struct {
	Tool   string
	Args   json.RawMessage // canonical
	Dir    string          // working directory
	Agent  string
	Policy string // digest of the policies in force
	Where  string // "host" or the sandbox's name
	// Sandbox is a digest of the sandbox's contents, or "host".
	Sandbox string
}

// Ask is one request to a person.
type Ask struct {
	Binding
	Turn      string
	Session   message.SessionKey
	Requester message.SenderKey // the sender who caused the call
	Reach     string            // how far an approval may reach: ReachOnce, ...
	Reasons   []string
}

// Service takes requests and decisions. Safe for concurrent use.
type Service struct {
	config Config

	mu      sync.Mutex
	changed chan struct{} // closed and renewed whenever a request changes its state
}

// New returns a Service over the store.
func New(c Config) (*Service, error) {
	if c.Store == nil {
		return nil, errors.New("open approvals: no store given")
	}
	if c.Notify == nil {
		c.Notify = func(consent.Approval) {}
	}
	if c.SelfApprove == nil {
		c.SelfApprove = func(message.SenderKey) bool { return false }
	}
	if c.Lifetime <= 0 {
		c.Lifetime = 15 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{config: c, changed: make(chan struct{})}, nil
}

// Refresh makes those who wait for decisions look again, because another process may have decided.
func (s *Service) Refresh(context.Context) error {
	s.wake()
	return nil
}

// Request writes a request and notifies people. It reuses an open request for the same call of the same turn, such as
// one from before a restart; an unused grant counts as open.
func (s *Service) Request(ctx context.Context, ask Ask) (consent.Approval, error) {
	a, found, err := s.open(ctx, ask)
	if err != nil {
		return consent.Approval{}, fmt.Errorf("look for an open approval: %w", err)
	}
	if !found {
		if err := s.crowded(ctx, ask.Requester); err != nil {
			return consent.Approval{}, err
		}
		a = s.draft(ask)
		if err := s.config.Store.AddApproval(ctx, a); err != nil {
			return consent.Approval{}, fmt.Errorf("write approval: %w", err)
		}
	}
	s.config.Notify(a)
	return a, nil
}

func (s *Service) draft(ask Ask) consent.Approval {
	now := s.config.Now()
	return consent.Approval{
		ID:        rand.Text()[:10], // short, because people type it; it is no secret
		Turn:      ask.Turn,
		Session:   ask.Session,
		Agent:     ask.Agent,
		Requester: ask.Requester,
		Tool:      ask.Tool,
		Args:      ask.Args,
		Dir:       ask.Dir,
		Where:     ask.Where,
		Sandbox:   ask.Sandbox,
		Policy:    ask.Policy,
		Reach:     ask.Reach,
		Reasons:   ask.Reasons,
		State:     consent.ApprovalPending,
		Created:   now,
		Expires:   now.Add(s.config.Lifetime),
	}
}

// manyOpen bounds the open requests that are searched.
const manyOpen = 1000

// manyEach bounds the waiting requests of one sender, so that they cannot hide those of others.
const manyEach = 10

func (s *Service) crowded(ctx context.Context, requester message.SenderKey) error {
	if s.config.SelfApprove(requester) {
		return nil
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, a := range pending {
		if a.Requester == requester {
			n++
		}
	}
	if n >= manyEach || len(pending) >= manyOpen {
		return ErrMany
	}
	return nil
}

// open finds a request for the same call that waits, or that was granted and not used.
func (s *Service) open(ctx context.Context, ask Ask) (consent.Approval, bool, error) {
	for _, state := range []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalGranted} {
		list, err := s.config.Store.ListApprovals(ctx, state, manyOpen)
		if err != nil {
			return consent.Approval{}, false, err
		}
		for _, a := range list {
			if a.Turn == ask.Turn && a.Session == ask.Session && bindingOf(a).equal(ask.Binding) && !s.expired(a) {
				return a, true, nil
			}
		}
	}
	return consent.Approval{}, false, nil
}

func (s *Service) expired(a consent.Approval) bool { return !s.config.Now().Before(a.Expires) }

// Pending lists the requests that wait for a decision, oldest first. It ends those whose time is up.
func (s *Service) Pending(ctx context.Context) ([]consent.Approval, error) {
	list, err := s.config.Store.ListApprovals(ctx, consent.ApprovalPending, manyOpen)
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	var pending []consent.Approval
	for _, a := range list {
		if !s.expired(a) {
			pending = append(pending, a)
			continue
		}
		if err := s.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
	return pending, nil
}

// move commits a change of state and wakes those who wait for it.
func (s *Service) move(ctx context.Context, a consent.Approval, to consent.ApprovalState, decider string) error {
	now := s.config.Now()
	if err := s.config.Store.MoveApproval(ctx, a.ID, a.State, to, decider, now); err != nil {
		return fmt.Errorf("move approval %s to %s: %w", a.ID, to, err)
	}
	a.State, a.Decider, a.Decided = to, decider, now
	s.wake()
	s.config.Notify(a)
	return nil
}

func (s *Service) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Service) change() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
