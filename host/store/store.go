// Package store keeps what must survive: the inbox, sessions, turns and their
// steps, the outbox, approvals, decisions, memory.
//
// Start with Store. Every method that returns without error has committed to stable
// storage. SQLite is the first back end (package sqlite); storetest is the suite that every
// back end passes. The package decides nothing.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ErrNotFound is returned for a row that does not exist.
var ErrNotFound = errors.New("not found in the store")

// ErrPassing is returned for a read that failed for want of something that may come back, such as descriptors or memory, after it was tried
// again for a while.
var ErrPassing = errors.New("the store cannot be read now")

// ErrLocked is the error of opening a store that another flynn has open.
var ErrLocked = errors.New("another flynn is using it")

// ErrConflict is returned when a row is not in the state that the call needs.
var ErrConflict = errors.New("row is in another state")

// Conflict is ErrConflict in words for people.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// Is implements what errors.Is looks for.
func (Conflict) Is(target error) bool { return target == ErrConflict }

// NotFound is ErrNotFound in words for people.
type NotFound string

func (n NotFound) Error() string { return string(n) }

// Is implements what errors.Is looks for.
func (NotFound) Is(target error) bool { return target == ErrNotFound }

// Store is all durable state. Safe for concurrent use.
type Store interface {
	Inbox
	Turns
	Children
	Places
	Archive
	Leftovers
	Halts
	Outbox
	Drafts
	Earlier
	Approvals
	Grants
	Elevations
	Audit
	Pairings
	Memory
	Extractions
	Summaries
	Results
	Decisions
	Trails
	EgressLog
	Usages
	Shadows
	Policies
	Schedules
	Values
	Pruning
	Close() error
}

// InboxState is the life of an inbox row: New until a turn ends it or it is set aside.
type InboxState string

// States of an inbox row.
const (
	InboxNew     InboxState = "new"
	InboxDone    InboxState = "done"    // a turn answered it
	InboxDropped InboxState = "dropped" // refused by admission or routing; Note says why
	InboxStale   InboxState = "stale"   // too old on arrival; recorded, not answered
	InboxFailed  InboxState = "failed"  // its turn failed for good; the sender was told
	InboxNoted   InboxState = "noted"   // not answered by itself; the next turn in its conversation is told, and makes it Done
)

// InboxRow is a message that was accepted.
type InboxRow struct {
	ID      int64
	Message message.Message
	State   InboxState
	Note    string
}

// Inbox keeps accepted messages. (Channel, EventID) is unique for ever.
type Inbox interface {
	// AppendInbox commits a message; fresh is false when it was there already.
	AppendInbox(ctx context.Context, m message.Message, state InboxState, note string) (row InboxRow, fresh bool, err error)
	// PendingInbox returns the rows in state New, oldest first.
	PendingInbox(ctx context.Context) ([]InboxRow, error)
	// NotedInbox returns the rows in state Noted, oldest first.
	NotedInbox(ctx context.Context) ([]InboxRow, error)
	// SetInbox ends a row without a turn.
	SetInbox(ctx context.Context, id int64, state InboxState, note string) error
}

// Earlier finds messages by what their channel calls them.
type Earlier interface {
	// FindInbox returns the row of an event, or ErrNotFound.
	FindInbox(ctx context.Context, channel, eventID string) (InboxRow, error)
	// FindSent returns the reply of which a channel made a message, by the platform's id, or ErrNotFound. It looks through the
	// latest turns of the conversation.
	FindSent(ctx context.Context, channel, conversation, platformID string) (OutboxRow, error)
	// LastPrivate returns the private conversation in which a sender was answered last, by his own channel, or ErrNotFound. It
	// looks through his latest turns.
	LastPrivate(ctx context.Context, channel, sender string) (message.Conversation, error)
	// Senders are all who were ever answered, by their keys, sorted.
	Senders(ctx context.Context) ([]string, error)
}

// TurnState is the life of a turn.
type TurnState string

// States of a turn.
const (
	TurnRunning TurnState = "running"
	TurnDone    TurnState = "done"
	TurnFailed  TurnState = "failed"
	TurnStopped TurnState = "stopped" // by a person
)

// Turn is one answer in the making.
type Turn struct {
	ID           string // time-ordered, unique
	Session      string // a message.SessionKey
	Agent        string
	Channel      string
	Conversation message.Conversation
	Sender       string
	Inbox        []int64 // rows that it answers
	State        TurnState
	Error        string
	Started      time.Time
	Ended        time.Time
	// Parent is the turn that delegated this one by its tool call ParentCall; a child answers no message. Background children
	// outlive their parent.
	Parent, ParentCall string
	Background         bool
}

// ConversationKey is the text of the message.ConversationKey in which a turn answers.
func (t Turn) ConversationKey() string {
	return message.ConversationKey{Channel: t.Channel, ID: t.Conversation.ID}.String()
}

// Step is one committed piece of a turn; Seq counts from 0 within it.
type Step struct {
	Turn string
	Seq  int
	Kind StepKind
	// Data is the step's record as JSON; its shape follows from Kind (package agent).
	Data json.RawMessage
	At   time.Time
}

// StepKind names what a step holds.
type StepKind string

// Kinds of steps.
const (
	StepUser       StepKind = "user"
	StepModel      StepKind = "model"
	StepToolStart  StepKind = "tool_start"
	StepToolResult StepKind = "tool_result"
	StepTask       StepKind = "task"      // the host's own use of a model
	StepCondensed  StepKind = "condensed" // a summary stands for the turn's steps before
)

// Commit is one atomic advance of a turn.
type Commit struct {
	Turn      Turn // upserted; its State moves the inbox rows along when it ends
	Steps     []Step
	Decisions []Decision
	Replies   []message.Reply
	Usage     []Usage
	// Told are rows in state Noted that the turn was told of; those in another state stay as they are.
	Told []int64
	// InboxState is given to the turn's inbox rows when the turn has ended.
	InboxState InboxState
	Summary    *Summary     // of the session's older turns, made in this turn
	Results    []KeptResult // that the steps show in part
	Extract    bool         // the turn waits for what is worth remembering to be taken out of it; see Extractions
}

// Turns keeps sessions, turns and steps.
type Turns interface {
	// CommitTurn applies c in one transaction. A turn that has ended cannot be changed: ErrConflict.
	CommitTurn(ctx context.Context, c Commit) error
	RunningTurns(ctx context.Context) ([]Turn, error)
	// RunningIn returns the ids of those among a session's latest turns that run, oldest first.
	RunningIn(ctx context.Context, session string, turns int) ([]string, error)
	// Steps returns a turn's steps in order.
	Steps(ctx context.Context, turn string) ([]Step, error)
	// Transcript returns the steps of a session's last turns that have any, oldest first, running turns included.
	Transcript(ctx context.Context, session string, turns int) ([]Step, error)
	// History returns the last turns of a conversation over all agents, oldest first, without children.
	History(ctx context.Context, channel, conversation string, turns int) ([]Turn, error)
	// FirstTurns is History from the other end: the first turns of a conversation that are left.
	FirstTurns(ctx context.Context, channel, conversation string, turns int) ([]Turn, error)
	// Session returns one session.
	Session(ctx context.Context, key string) (Session, error)
	// Holders returns the sessions with the sender of each one's latest turn that nobody delegated.
	Holders(ctx context.Context) ([]Holder, error)
	// Sessions lists the sessions that are known, latest first.
	Sessions(ctx context.Context, limit int) ([]Session, error)
}

// Session sums up a session.
type Session struct {
	Key   string
	Agent string
	Turns int
	Last  time.Time
}

// Holder says whose a session is.
type Holder struct{ Session, Sender string }

// OutboxState is the life of an outbox row.
type OutboxState string

// States of an outbox row. Sending is committed before a send whose repetition the channel could not
// recognise, so that a crash leaves a mark.
const (
	OutboxPending OutboxState = "pending"
	OutboxSending OutboxState = "sending"
	OutboxSent    OutboxState = "sent"
	OutboxDead    OutboxState = "dead"
)

// OutboxRow is a reply to be delivered.
type OutboxRow struct {
	ID       int64
	Turn     string
	Reply    message.Reply
	State    OutboxState
	Attempts int
	NextTry  time.Time
	Pause    time.Duration // before NextTry, when it was set; 0: not known, or none
	Note     string
	// PlatformIDs are the ids of the messages that the channel made of it.
	PlatformIDs []string
	// Parts are the texts of the messages that it is sent as, fixed before the first of them is sent; empty where it is one
	// message with the reply's own text. State, Attempts, NextTry, Pause and Note are about the part under way.
	Parts []string
	// Part counts the messages that are delivered.
	Part int
}

// Outbox keeps replies until they are delivered. Key is unique.
type Outbox interface {
	// UnsentOutbox returns rows in state Pending or Sending, oldest first.
	UnsentOutbox(ctx context.Context) ([]OutboxRow, error)
	// SetOutbox stores everything of a row but ID and Turn, by Reply.Key.
	SetOutbox(ctx context.Context, row OutboxRow) error
	// AddReplies commits replies that no step of a turn brings, and returns those whose key was not there yet.
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	// Replies returns the replies of a turn.
	Replies(ctx context.Context, turn string) ([]OutboxRow, error)
}

// Settler is an Outbox that can take its time.
type Settler interface {
	// SettleOutbox is SetOutbox for what would do no harm if it were lost. It may wait some milliseconds for other writes, to be
	// committed with them.
	SettleOutbox(ctx context.Context, row OutboxRow) error
}

// ApprovalState is the life of an approval.
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
	Session   string
	Agent     string
	Requester string
	Tool      string
	Args      json.RawMessage // canonical
	Dir       string
	Where     string // machine's name
	Sandbox   string // digest of what the sandbox is made of, or "host"
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

// Decision is one answer of routing or of a policy, with everything that it was based on.
type Decision struct {
	ID     int64
	At     time.Time
	Kind   string // route_table, route, tool, enforce
	Turn   string
	Policy string // name
	Digest string // of the module, data, limits and meter
	File   string // SHA-256 of the module's file; "" in rows of an older flynn
	Frame  []byte
	Text   string          // the whole text, where the frame has only its beginning
	Args   json.RawMessage // of a tool call
	Calls  json.RawMessage // host calls and their answers, in order
	Raw    int64           // the module's answer in its own numbers
	Rule   uint32          // the number that the module gave as the reason
	Answer string
	Reason string
	Error  string
	Fuel   int64
	Nanos  int64
}

// DecisionFilter selects decisions; zero fields select all.
type DecisionFilter struct {
	ID                 int64
	Kind, Policy, Turn string
	Since, Until       time.Time // Until is the first moment that does not belong
	Limit              int
	// WithoutCalls leaves Calls empty, for who has no use for them: they take the longest to read.
	WithoutCalls bool
}

// Decisions is the decision log. Rows of a turn are written by CommitTurn.
type Decisions interface {
	AddDecisions(ctx context.Context, ds []Decision) error
	// ListDecisions returns the oldest decisions, a thousand if there is no limit.
	ListDecisions(ctx context.Context, f DecisionFilter) ([]Decision, error)
	// EachDecision goes over any number of decisions in the order of their times, and holds few of them at a time. Writers do
	// not wait for it. An error ends it.
	EachDecision(ctx context.Context, f DecisionFilter) iter.Seq2[Decision, error]
}
