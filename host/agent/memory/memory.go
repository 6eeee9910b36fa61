// Package memory defines the notes that agents remember, and the list of turns from which notes are to be extracted.
//
// Start with Note. Package agent and the memory tools of package builtin write and search notes, and package sqlite stores them; this
// package does neither.
package memory

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Note is one remembered piece of text.
type Note struct {
	ID      int64     `json:"id"`
	Agent   string    `json:"agent"`
	Person  string    `json:"person,omitempty"` // sender key of the person it is about; "" for the agent's own, which everybody shares
	Key     string    `json:"key"`              // unique per agent and person
	Text    string    `json:"text"`
	By      string    `json:"by"`             // sender who caused it
	Turn    string    `json:"turn,omitempty"` // in which it was written; "" in notes of an older flynn
	Labels  []string  `json:"labels,omitempty"`
	Updated time.Time `json:"updated"`
	// MendedBy has corrected the text since, at Mended. By, Turn and Labels still say where the note is from.
	MendedBy string    `json:"mended_by,omitempty"`
	Mended   time.Time `json:"mended,omitzero"`
}

// Own is the scope of notes that are about no person.
const Own = ""

// Scopes returns the scopes of a person's sender keys.
func Scopes(ids []message.SenderKey) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// NoteQuery selects notes; zero fields select all.
type NoteQuery struct {
	Agent string
	// Persons are the scopes to search, including Own for the agent's own notes; nil means every scope.
	Persons []string
	Key     string
	ID      int64
	// Words must occur in key or text: all of them or, with Any, at least one. The best matches come first; without words, the latest.
	Words string
	Any   bool
	// Latest sorts matches of words by time as well.
	Latest bool
	// Before leaves out the note of this id, and those that come before it in a list by time; it needs Latest or no words.
	Before *Position
	Limit  int // 0 means 1,000
}

// Position is the place of a note in a list by time.
type Position struct {
	Updated time.Time
	ID      int64
}

// Notes keeps notes with full-text search.
type Notes interface {
	// WriteNote writes a note, or replaces the one with the same key. It returns ErrNoRoom if a new note would exceed max notes of its
	// agent and person; max 0 means no bound.
	WriteNote(ctx context.Context, n Note, max int) error
	ReadNote(ctx context.Context, agent, person, key string) (Note, error)
	SearchNotes(ctx context.Context, q NoteQuery) ([]Note, error)
	// MendNote replaces the text of a note, which was was, and records who did so and when. It returns ErrNotFound, or ErrConflict if the
	// text is another by now.
	MendNote(ctx context.Context, id int64, was, text, by string, now time.Time) (Note, error)
	// ForgetNotes deletes and returns the notes that a query selects, ignoring its limit. Words must be empty.
	ForgetNotes(ctx context.Context, q NoteQuery) ([]Note, error)
}

// Extraction is an ended turn from which memories are to be extracted.
type Extraction struct {
	Turn     turnlog.Turn
	Attempts int
}

// Extractions is the list of such turns. The commit that ends a turn adds it.
type Extractions interface {
	PendingExtractions(ctx context.Context, limit int) ([]Extraction, error)
	// FinishExtraction writes the notes and removes the turn from the list, in one transaction. It returns ErrConflict if the turn is
	// not on the list. It does not replace a note that was written on purpose. If the scope then has more than max notes, the oldest
	// extracted ones are deleted.
	FinishExtraction(ctx context.Context, turn string, notes []Note, max int) error
	// RetryExtraction counts a failed attempt.
	RetryExtraction(ctx context.Context, turn string) error
}

// Extracted is the label of a note that a model proposed.
const Extracted = "memory:extracted"
