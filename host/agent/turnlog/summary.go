package turnlog

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Summary replaces the older turns of a session in what a model is shown. The turns stay in the store.
type Summary struct {
	ID      string // sorts by time among turn ids
	Session message.SessionKey
	Through string // the last turn that it covers
	Turns   int    // number of turns that it covers, including those of the summary before it
	Text    string
	Labels  []string // of the session when it was made
	By      string   // the turn or command in which it was made
	Tokens  int64    // used to make it
	CostUSD float64
	At      time.Time
}

// Summaries stores summaries, including old ones. They are written by CommitTurn, or by Settle on request.
type Summaries interface {
	// LatestSummary returns the summary in force, or ErrNotFound.
	LatestSummary(ctx context.Context, session message.SessionKey) (Summary, error)
	// TranscriptAfter is like Transcript without the turns up to the given one.
	TranscriptAfter(ctx context.Context, session message.SessionKey, turn string, turns int) ([]Step, error)
}

// KeptResult is the whole of a tool result of which a step shows a part.
type KeptResult struct {
	ID      string
	Session message.SessionKey
	Tool    string
	Text    string
	Labels  []string
	At      time.Time
}

// MaxResults bounds the kept results of a session; the oldest are deleted.
const MaxResults = 64

// Results stores whole results. They are written by CommitTurn.
type Results interface {
	// KeptResult returns a result of a session, or ErrNotFound.
	KeptResult(ctx context.Context, session message.SessionKey, id string) (KeptResult, error)
}
