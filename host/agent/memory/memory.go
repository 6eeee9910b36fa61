// Package memory has the notes that agents remember, and the turns from which notes are still to be taken.
//
// Start with Note. Package agent and the memory tools of package builtin write and search notes, and package sqlite keeps them; this package
// does neither.
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
	Person  string    `json:"person,omitempty"` // sender key of the person it is about; "" is the agent's own, for everybody who talks to it
	Key     string    `json:"key"`              // unique per agent and person
	Text    string    `json:"text"`
	By      string    `json:"by"`             // sender who caused it
	Turn    string    `json:"turn,omitempty"` // in which it was written; "" in notes of an older flynn
	Labels  []string  `json:"labels,omitempty"`
	Updated time.Time `json:"updated"`
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
	// Persons are the scopes to look in, Own among them where the agent's own notes are meant; nil is every scope.
	Persons []string
	Key     string
	ID      int64
	// Words have to occur, in key or text, all of them or, with Any, at least one. Best matches come first, else the latest.
	Words string
	Any   bool
	Limit int // 0 is 1,000
}

// Notes keeps notes with full-text search.
type Notes interface {
	// WriteNote writes a note, or replaces the one under its key. Where a new one would exceed max notes of its agent and person
	// it is ErrNoRoom; max 0 is no bound.
	WriteNote(ctx context.Context, n Note, max int) error
	ReadNote(ctx context.Context, agent, person, key string) (Note, error)
	SearchNotes(ctx context.Context, q NoteQuery) ([]Note, error)
	// ForgetNotes deletes what a query selects, whatever its limit, and returns what it was. Words have to be empty.
	ForgetNotes(ctx context.Context, q NoteQuery) ([]Note, error)
}

// Extraction is an ended turn from which what is worth remembering is still to be taken.
type Extraction struct {
	Turn     turnlog.Turn
	Attempts int
}

// Extractions are the turns that wait so. A turn gets among them by the commit that ends it.
type Extractions interface {
	PendingExtractions(ctx context.Context, limit int) ([]Extraction, error)
	// FinishExtraction writes the notes and takes the turn off the list, in one transaction; ErrConflict where it is not on it.
	// A note that was written on purpose is not replaced. Where the notes of one scope become more than max, the oldest of those that
	// an extraction wrote go.
	FinishExtraction(ctx context.Context, turn string, notes []Note, max int) error
	// RetryExtraction counts an attempt that failed.
	RetryExtraction(ctx context.Context, turn string) error
}

// Extracted is the label of what a model proposed to remember.
const Extracted = "memory:extracted"
