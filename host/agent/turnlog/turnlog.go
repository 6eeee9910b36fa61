// Package turnlog has what is kept of sessions: turns with their committed steps, summaries, whole results, and what people chose for the
// places in which sessions are.
//
// Start with Commit, which is how a turn advances. The records inside steps are package agent's; package sqlite keeps the rows. This
// package does neither.
package turnlog

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
)

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
	Sender       message.SenderKey
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

// ConversationKey returns the key of the conversation in which a turn answers.
func (t Turn) ConversationKey() message.ConversationKey {
	return message.NewConversationKey(t.Channel, t.Conversation.ID)
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
	Decisions []journal.Decision
	Replies   []message.Reply
	Usage     []usage.Row
	// Told are rows in state Noted that the turn was told of; those in another state stay as they are.
	Told []int64
	// InboxState is given to the turn's inbox rows when the turn has ended.
	InboxState mailbox.InboxState
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
type Holder struct {
	Session string
	Sender  message.SenderKey
}

// Children finds turns that other turns have delegated.
type Children interface {
	// Child returns the turn that a tool call of a turn has made, or ErrNotFound.
	Child(ctx context.Context, parent, call string) (Turn, error)
	// ChildTurn returns a child by its id, or ErrNotFound.
	ChildTurn(ctx context.Context, id string) (Turn, error)
}
