package consent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ApprovalState is the state of an approval.
type ApprovalState string

// States of an approval.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalGranted  ApprovalState = "granted"
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired"
	ApprovalConsumed ApprovalState = "consumed" // a one-time grant that was used
	// ApprovalWithdrawn is a request whose call ended before it was answered, or before the grant was used.
	ApprovalWithdrawn ApprovalState = "withdrawn"
)

// Approval is a request to a person and its answer, a lease.
type Approval struct {
	ID        string
	Turn      string
	Session   message.SessionKey
	Agent     string
	Requester message.SenderKey
	Tool      string
	Args      json.RawMessage // canonical
	Dir       string
	Where     string // machine's name
	Sandbox   string // digest of the sandbox's contents, or "host"
	Policy    string // digest of the policies in force
	Reach     string // how far a grant may reach; see package approval
	Reasons   []string
	State     ApprovalState
	Scope     GrantScope // of the grant with its ID, if it was granted beyond this call
	Decider   string
	Created   time.Time
	Expires   time.Time
	Decided   time.Time
}

// Approvals keeps approvals.
type Approvals interface {
	AddApproval(ctx context.Context, a Approval) error
	Approval(ctx context.Context, id string) (Approval, error)
	// MoveApproval changes the state from one to another, or returns ErrConflict.
	MoveApproval(ctx context.Context, id string, from, to ApprovalState, decider string, at time.Time) error
	// ListApprovals returns approvals in a state, oldest first.
	ListApprovals(ctx context.Context, state ApprovalState, limit int) ([]Approval, error)
}
