// Package turnlog defines the stored form of sessions: turns with their committed steps, summaries, whole results, and people's choices
// for conversation scopes.
//
// Start with Commit, which advances a turn. Package transcript defines the records inside steps, and package sqlite stores the rows.
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

// TurnState is the state of a turn.
type TurnState string

// States of a turn.
const (
	TurnRunning TurnState = "running"
	TurnDone    TurnState = "done"
	TurnFailed  TurnState = "failed"
	TurnStopped TurnState = "stopped" // by a person
)

// Turn is one answer to one or more messages.
type Turn struct {
	ID           string // time-ordered, unique
	Session      message.SessionKey
	Agent        string
	Channel      string
	Conversation message.Conversation
	Sender       message.SenderKey
	Inbox        []int64 // rows of the messages that it answers
	State        TurnState
	Error        string
	Started      time.Time
	Ended        time.Time
	// Parent is the turn that delegated this one by its tool call ParentCall. A child answers no message. Background children outlive
	// their parent.
	Parent, ParentCall string
	Background         bool
}

// ConversationKey returns the key of the conversation in which the turn answers.
func (t Turn) ConversationKey() message.ConversationKey {
	return message.NewConversationKey(t.Channel, t.Conversation.ID)
}

// Step is one committed part of a turn; Seq counts from 0.
type Step struct {
	Turn string
	Seq  int
	Kind StepKind
	// Data is the step's record as JSON. Kind determines its type (package transcript).
	Data json.RawMessage
	At   time.Time
}

// StepKind is the kind of a step's record.
type StepKind string

// Kinds of steps.
const (
	StepUser       StepKind = "user"
	StepModel      StepKind = "model"
	StepToolStart  StepKind = "tool_start"
	StepToolResult StepKind = "tool_result"
	StepTask       StepKind = "task"      // a model call of the host itself
	StepCondensed  StepKind = "condensed" // a summary replaces earlier steps of the turn
)

// Commit is one atomic advance of a turn.
type Commit struct {
	Turn      Turn // upserted; when it ends, its inbox rows change their state
	Steps     []Step
	Decisions []journal.Decision
	Replies   []message.Reply
	Usage     []usage.Row
	// Told are rows in state Noted that the turn has seen; rows in another state do not change.
	Told []int64
	// InboxState is the new state of the turn's inbox rows when the turn has ended.
	InboxState mailbox.InboxState
	Summary    *Summary     // of the session's older turns, made in this turn
	Results    []KeptResult // whole results of which the steps show a part
	Extract    bool         // memories are to be extracted from the turn; see Extractions
}

// Turns stores sessions, turns and steps.
type Turns interface {
	// CommitTurn applies c in one transaction. It returns ErrConflict for a turn that has ended.
	CommitTurn(ctx context.Context, c Commit) error
	RunningTurns(ctx context.Context) ([]Turn, error)
	// RunningIn returns the ids of the running turns among a session's latest turns, oldest first.
	RunningIn(ctx context.Context, session message.SessionKey, turns int) ([]string, error)
	// Steps returns a turn's steps in order.
	Steps(ctx context.Context, turn string) ([]Step, error)
	// Transcript returns the steps of a session's last turns that have steps, oldest first, including running turns.
	Transcript(ctx context.Context, session string, turns int) ([]Step, error)
	// History returns the last turns of a conversation over all agents, oldest first, without children.
	History(ctx context.Context, channel, conversation string, turns int) ([]Turn, error)
	// HistoryUpTo is like History without the turns after the given one.
	HistoryUpTo(ctx context.Context, channel, conversation, turn string, turns int) ([]Turn, error)
	// FirstTurns returns the first stored turns of a conversation.
	FirstTurns(ctx context.Context, channel, conversation string, turns int) ([]Turn, error)
	// Session returns one session.
	Session(ctx context.Context, key message.SessionKey) (Session, error)
	// Holders returns the sessions, each with the sender of its latest turn that was not delegated.
	Holders(ctx context.Context) ([]Holder, error)
	// Sessions returns the known sessions, latest first.
	Sessions(ctx context.Context, limit int) ([]Session, error)
}

// Session describes a session.
type Session struct {
	Key   message.SessionKey
	Agent string
	Turns int
	Last  time.Time
}

// Holder is the owner of a session.
type Holder struct {
	Session message.SessionKey
	Sender  message.SenderKey
}

// Children finds turns that other turns have delegated.
type Children interface {
	// Child returns the turn that a tool call of a turn has begun, or ErrNotFound.
	Child(ctx context.Context, parent, call string) (Turn, error)
	// ChildTurn returns a child by its id, or ErrNotFound.
	ChildTurn(ctx context.Context, id string) (Turn, error)
}
