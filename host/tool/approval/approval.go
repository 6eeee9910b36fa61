// Package approval lets a person decide about a tool call: the request is durable, is shown in
// full, is answered once, and the answer is good for exactly the call that was shown, or for what was shown of those to come.
//
// Start with Desk: Request writes the request, Wait blocks until a person has decided or the time
// is up, Consume spends the grant immediately before the call runs. A person may also say yes for longer (lease.go): Use finds
// the lease that covers a call. Nothing lives in memory
// alone, so a restart loses no request and no answer. The package does not decide which calls need
// a person; that is tool.Enforcer's business.
package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Config says how a Desk works. Only Store is required.
type Config struct {
	Store consent.Approvals
	// Grants keeps leases; without it every call is granted by itself.
	Grants consent.Grants
	// Notify hears of every request and of every change of its state, after it was committed. It may hear of the
	// same state twice, as after a restart; what it sends out it keys by ID and State. It must not block for long.
	Notify func(consent.Approval)
	// SelfApprove reports whether a requester ("instance:platform-id") may grant his own requests: true for the
	// local doors, where requester and owner are one. Nil: nobody may.
	SelfApprove func(requester string) bool
	// Lifetime is how long a request waits, and a grant stays good. 15 min
	Lifetime time.Duration
	Now      func() time.Time
}

// Errors of a decision or of its use.
var (
	ErrDecided = errors.New("the request has another answer already")
	ErrExpired = errors.New("the request has expired")
	ErrSelf    = errors.New("the person who asked cannot grant the request")
	ErrDrift   = errors.New("the call is not the one that was approved")
	ErrUsed    = errors.New("the approval was used already, or never granted")
	ErrGone    = errors.New("the call that asked for it has ended, so nothing would run")
	ErrMany    = errors.New("too many requests of this sender wait for an answer")
)

// Binding is what an approval is good for, and nothing else.
type Binding struct {
	Tool   string
	Args   json.RawMessage // canonical
	Dir    string          // working directory
	Agent  string
	Policy string // digest of the policies in force
	Where  string // "host" or the sandbox's name
	// Sandbox is a digest of what the sandbox is made of, or "host".
	Sandbox string
}

// Ask is one request to a person.
type Ask struct {
	Binding
	Turn      string
	Session   string
	Requester string // sender who caused the call, "instance:platform-id"
	Reach     string // how far a yes may reach: ReachOnce, ...
	Reasons   []string
}

// Desk takes requests and decisions. Safe for concurrent use.
type Desk struct {
	config Config

	mu      sync.Mutex
	changed chan struct{} // closed and renewed whenever a request changes its state
}

// New returns a Desk over the store.
func New(c Config) (*Desk, error) {
	if c.Store == nil {
		return nil, errors.New("open approvals: no store given")
	}
	if c.Notify == nil {
		c.Notify = func(consent.Approval) {}
	}
	if c.SelfApprove == nil {
		c.SelfApprove = func(string) bool { return false }
	}
	if c.Lifetime <= 0 {
		c.Lifetime = 15 * time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Desk{config: c, changed: make(chan struct{})}, nil
}

// Request writes a request and tells people of it. An open request for the same call of the same turn, such
// as one from before a restart, is taken up instead of asking twice; a grant that was not used yet counts as open.
func (d *Desk) Request(ctx context.Context, ask Ask) (consent.Approval, error) {
	a, found, err := d.open(ctx, ask)
	if err != nil {
		return consent.Approval{}, fmt.Errorf("look for an open approval: %w", err)
	}
	if !found {
		if err := d.crowded(ctx, ask.Requester); err != nil {
			return consent.Approval{}, err
		}
		a = d.draft(ask)
		if err := d.config.Store.AddApproval(ctx, a); err != nil {
			return consent.Approval{}, fmt.Errorf("write approval: %w", err)
		}
	}
	d.config.Notify(a)
	return a, nil
}

func (d *Desk) draft(ask Ask) consent.Approval {
	now := d.config.Now()
	return consent.Approval{
		ID:        rand.Text()[:10], // people type it; whether they may decide does not hang on it
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
		Expires:   now.Add(d.config.Lifetime),
	}
}

// manyOpen bounds how many open requests are looked through.
const manyOpen = 1000

// manyEach bounds the requests of one sender that wait: nobody may bury the requests of others under his own.
const manyEach = 10

func (d *Desk) crowded(ctx context.Context, requester string) error {
	if d.config.SelfApprove(requester) {
		return nil
	}
	pending, err := d.Pending(ctx)
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

// open finds a request for the same call that still waits or was granted and not used.
func (d *Desk) open(ctx context.Context, ask Ask) (consent.Approval, bool, error) {
	for _, state := range []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalGranted} {
		list, err := d.config.Store.ListApprovals(ctx, state, manyOpen)
		if err != nil {
			return consent.Approval{}, false, err
		}
		for _, a := range list {
			if a.Turn == ask.Turn && a.Session == ask.Session && bindingOf(a).equal(ask.Binding) && !d.expired(a) {
				return a, true, nil
			}
		}
	}
	return consent.Approval{}, false, nil
}

func (d *Desk) expired(a consent.Approval) bool { return !d.config.Now().Before(a.Expires) }

// Pending lists the requests that wait for a decision, oldest first. Those whose time is up are ended on the way.
func (d *Desk) Pending(ctx context.Context) ([]consent.Approval, error) {
	list, err := d.config.Store.ListApprovals(ctx, consent.ApprovalPending, manyOpen)
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	var pending []consent.Approval
	for _, a := range list {
		if !d.expired(a) {
			pending = append(pending, a)
			continue
		}
		if err := d.move(ctx, a, consent.ApprovalExpired, ""); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
	return pending, nil
}

// move commits a change of state and tells everybody who waits.
func (d *Desk) move(ctx context.Context, a consent.Approval, to consent.ApprovalState, decider string) error {
	now := d.config.Now()
	if err := d.config.Store.MoveApproval(ctx, a.ID, a.State, to, decider, now); err != nil {
		return fmt.Errorf("move approval %s to %s: %w", a.ID, to, err)
	}
	a.State, a.Decider, a.Decided = to, decider, now
	d.wake()
	d.config.Notify(a)
	return nil
}

func (d *Desk) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Desk) change() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}
