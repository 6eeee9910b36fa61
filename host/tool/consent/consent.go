// Package consent declares the records of permissions that people give: requests for approval, grants, elevations, and their audit log.
//
// Start with Approval and Grant. Packages approval and elevate use them, and package sqlite stores them; this package does neither.
package consent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/message"
)

// GrantScope is how far a grant reaches beyond the requested call.
type GrantScope string

// The scopes of grants that outlive one call.
const (
	GrantSession  GrantScope = "session"  // the same call again in its session
	GrantStanding GrantScope = "standing" // the same call again until the grant expires
)

// Grant is a lease: the calls that it covers need no approval until it ends. It covers calls with the same facts as below.
type Grant struct {
	ID        string             `json:"id"` // of the request that it answers
	Scope     GrantScope         `json:"scope"`
	Tool      string             `json:"tool"`
	Args      json.RawMessage    `json:"args"`              // canonical; of the call that was shown
	Pattern   string             `json:"pattern,omitempty"` // of command lines, in place of the one in Args
	Programs  []string           `json:"programs,omitempty"`
	Agent     string             `json:"agent"`
	Session   message.SessionKey `json:"session"` // of the request; only GrantSession is bound to it
	Dir       string             `json:"dir"`
	Where     string             `json:"where"`
	Sandbox   string             `json:"sandbox"` // digest of the sandbox's contents, or "host"
	Policy    string             `json:"policy"`
	Requester message.SenderKey  `json:"requester"`
	Reasons   []string           `json:"reasons,omitempty"` // why a person was asked; a call with another reason is not covered
	Granter   string             `json:"granter"`
	Created   time.Time          `json:"created"`
	Expires   time.Time          `json:"expires"`
	Uses      int64              `json:"uses"` // besides the requested call
	LastUsed  time.Time          `json:"last_used,omitzero"`
	Ended     time.Time          `json:"ended,omitzero"` // by a person, before it expired
	EndedBy   string             `json:"ended_by,omitempty"`
}

// Open reports whether the grant is valid.
func (g Grant) Open(now time.Time) bool {
	return g.Ended.IsZero() && clock.Within(g.Created, g.Expires, now)
}

// Grants keeps leases. Every change adds an audit row in the same transaction.
type Grants interface {
	// GrantApproval moves the pending request g.ID to consumed and adds the grant, or returns ErrConflict.
	GrantApproval(ctx context.Context, g Grant, row AuditRow) error
	// Grant returns one grant, or ErrNotFound.
	Grant(ctx context.Context, id string) (Grant, error)
	// OpenGrants returns the grants of an agent for a tool that are open, oldest first.
	OpenGrants(ctx context.Context, agent, tool string, now time.Time) ([]Grant, error)
	// ListGrants returns the latest grants, oldest first.
	ListGrants(ctx context.Context, limit int) ([]Grant, error)
	// UseGrant counts a use; ErrConflict if the grant is not open at row.At.
	UseGrant(ctx context.Context, id string, row AuditRow) error
	// EndGrant ends a grant at row.At by row.Actor; ErrConflict if it is not open.
	EndGrant(ctx context.Context, id string, row AuditRow) error
}

// Elevation lets the machine tools of a conversation leave the sandbox for a time.
type Elevation struct {
	Conversation message.ConversationKey `json:"conversation"`
	State        string                  `json:"state"`  // ask or on
	Sender       message.SenderKey       `json:"sender"` // began it, for his own calls alone
	Began        time.Time               `json:"began"`
	Until        time.Time               `json:"until"`
}

// Elevations keeps one Elevation for each conversation. Every change adds an audit row in the same transaction.
type Elevations interface {
	// Elevate begins an elevation and replaces an earlier one.
	Elevate(ctx context.Context, e Elevation, row AuditRow) error
	// Elevation returns that of a conversation, or ErrNotFound. It may be over.
	Elevation(ctx context.Context, conversation message.ConversationKey) (Elevation, error)
	// Elevations returns all, by conversation.
	Elevations(ctx context.Context) ([]Elevation, error)
	// EndElevation removes the elevation that began at a time; ErrConflict if it does not exist any more.
	EndElevation(ctx context.Context, conversation message.ConversationKey, began time.Time, row AuditRow) error
}

// AuditRow records that a permission was given, used or ended.
type AuditRow struct {
	ID      int64              `json:"id"`
	At      time.Time          `json:"at"`
	Kind    string             `json:"kind"`    // see the constants
	Subject string             `json:"subject"` // id of the grant or request, the conversation, or the session
	Actor   string             `json:"actor"`   // "instance:platform-id"; empty for the host itself
	Session message.SessionKey `json:"session,omitempty"`
	Agent   string             `json:"agent,omitempty"`
	Tool    string             `json:"tool,omitempty"`
	Turn    string             `json:"turn,omitempty"`
	Detail  string             `json:"detail,omitempty"` // for people
}

// Kinds of audit rows.
const (
	AuditGranted      = "grant"          // a lease was given
	AuditGrantUsed    = "grant_used"     // a lease let a call run
	AuditGrantEnded   = "grant_ended"    // a person took a lease back
	AuditElevated     = "elevated"       // elevated mode began
	AuditElevatedUsed = "elevated_used"  // it let a call leave the sandbox
	AuditElevatedEnd  = "elevated_ended" // by a person, or its time was up
	AuditDeleted      = "session_deleted"
	AuditErased       = "person_erased" // what the host had of a sender was deleted
	AuditTerminal     = "terminal"      // a person opened a terminal in a sandbox
	AuditTerminalEnd  = "terminal_ended"
	AuditPreview      = "preview" // a person opened a preview of a port in a sandbox
	AuditPreviewEnd   = "preview_ended"
	AuditConfigured   = "configured" // flynn.toml was edited
)

// AuditFilter selects audit rows; zero fields select all.
type AuditFilter struct {
	Kind    string
	Subject string
	Since   time.Time
	Below   int64 // only rows with a lesser ID; 0 means all
	Limit   int   // the latest so many; 1000
}

// Audit keeps the rows for good.
type Audit interface {
	AddAudit(ctx context.Context, rows []AuditRow) error
	// ListAudit returns rows in order.
	ListAudit(ctx context.Context, f AuditFilter) ([]AuditRow, error)
}
