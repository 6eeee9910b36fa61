package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Piece is something that was said or done in a session.
type Piece struct {
	Turn string    `json:"turn"`
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from" doc:"The sender, the agent or the tool"`
	Text string    `json:"text"`
}

// Transcript returns what was said and done in a session, oldest first, in at most limit turns after the one with id after; empty is the
// first turn. next is the id to go on with; empty is the end. store.ErrNotFound if there is no such session.
func Transcript(ctx context.Context, from Source, key message.SessionKey, after string, limit int) (pieces []Piece, next string, err error) {
	if _, err := from.Session(ctx, key); err != nil {
		return nil, "", Missing(key, err)
	}
	turns, err := from.SessionTurns(ctx, key)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		turns = turns[1+slices.IndexFunc(turns, func(t turnlog.Turn) bool { return t.ID == after }):]
	}
	if len(turns) > limit {
		turns = turns[:limit]
		next = turns[limit-1].ID
	}
	for _, t := range turns {
		steps, err := from.Steps(ctx, t.ID)
		if err != nil {
			return nil, "", err
		}
		told, err := transcript.Describe(t, steps, t.Error)
		if err != nil {
			return nil, "", fmt.Errorf("read turn %s: %w", t.ID, err)
		}
		for _, p := range told {
			pieces = append(pieces, Piece{t.ID, p.At, author(t, p), p.Text})
		}
	}
	return pieces, next, nil
}

// author names who said or did a piece of a turn.
func author(t turnlog.Turn, p transcript.Piece) string {
	switch {
	case p.Said:
		return string(t.Sender)
	case p.Call != nil:
		return p.Call.Tool
	}
	return t.Agent
}
