package turnlog

import (
	"context"
	"time"
)

// Summary stands for the older turns of a session in what a model is shown. The turns stay where they are.
type Summary struct {
	ID      string // sorts by time among the ids of turns
	Session string
	Through string // the last turn that it stands for
	Turns   int    // how many it stands for, those of the summary before it included
	Text    string
	Labels  []string // of the session when it was made
	By      string   // the turn or command in which it was made
	Tokens  int64    // that making it took
	CostUSD float64
	At      time.Time
}

// Summaries keeps summaries, old ones too. They come by CommitTurn, or by Settle where somebody asked for one.
type Summaries interface {
	// LatestSummary returns the one in force, or ErrNotFound.
	LatestSummary(ctx context.Context, session string) (Summary, error)
	// TranscriptAfter is Transcript without the turns up to one.
	TranscriptAfter(ctx context.Context, session, turn string, turns int) ([]Step, error)
}

// KeptResult is the whole of a tool's result of which a step shows a part.
type KeptResult struct {
	ID      string
	Session string
	Tool    string
	Text    string
	Labels  []string
	At      time.Time
}

// MaxResults bounds how many results a session keeps; beyond it the oldest go.
const MaxResults = 64

// Results keeps them; they come by CommitTurn.
type Results interface {
	// KeptResult returns one of a session; ErrNotFound.
	KeptResult(ctx context.Context, session, id string) (KeptResult, error)
}
