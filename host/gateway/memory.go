package gateway

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/memory"
)

// NoteFilter chooses notes.
type NoteFilter struct {
	Q      string `query:"q" maxLength:"256" doc:"Words that all occur in the key or the text"`
	Agent  string `query:"agent" maxLength:"256"`
	Person string `query:"person" maxLength:"1024" doc:"Only notes about this sender, such as telegram:12345"`
	Shared bool   `query:"shared" doc:"Only notes about no person"`
	Key    string `query:"key" maxLength:"256"`
}

// Query is the filter as the store takes it, the latest first.
func (f NoteFilter) Query() (memory.NoteQuery, error) {
	q := memory.NoteQuery{Agent: f.Agent, Key: f.Key, Words: f.Q, Latest: true}
	switch {
	case f.Person != "" && f.Shared:
		return q, BadRequest("choose person or shared")
	case f.Person != "":
		q.Persons = []string{f.Person}
	case f.Shared:
		q.Persons = []string{memory.Own}
	}
	return q, nil
}

// Forget chooses notes to delete: by their ids, or all of a person, an agent or a key. At least one must be named.
type Forget struct {
	IDs    []int64 `json:"ids,omitempty"`
	Agent  string  `json:"agent,omitempty"`
	Person string  `json:"person,omitempty"`
	Shared bool    `json:"shared,omitempty"` // notes about no person
	Key    string  `json:"key,omitempty"`
}

// maxForget bounds the ids of one request.
const maxForget = 1000

// Queries select the notes to delete. There are none if the choice is invalid or would be everything.
func (f Forget) Queries() []memory.NoteQuery {
	q := memory.NoteQuery{Agent: f.Agent, Key: f.Key}
	switch {
	case f.Person != "" && f.Shared || len(f.IDs) > maxForget:
		return nil
	case f.Person != "":
		q.Persons = []string{f.Person}
	case f.Shared:
		q.Persons = []string{memory.Own}
	}
	if len(f.IDs) == 0 {
		if q.Agent == "" && q.Key == "" && q.Persons == nil {
			return nil
		}
		return []memory.NoteQuery{q}
	}
	var out []memory.NoteQuery
	for _, id := range f.IDs {
		if id <= 0 {
			return nil
		}
		q.ID = id
		out = append(out, q)
	}
	return out
}

// From deletes the notes that f chooses, and returns them.
func (f Forget) From(ctx context.Context, notes interface {
	ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
}) ([]memory.Note, error) {
	var all []memory.Note
	for _, q := range f.Queries() {
		gone, err := notes.ForgetNotes(ctx, q)
		all = append(all, gone...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// Memory shows, mends and deletes notes of agents.
type Memory interface {
	// Notes returns notes, the latest first.
	Notes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
	// MendNote replaces the text of a note, which was was: store.ErrNotFound, or store.ErrConflict if the text is another by now.
	MendNote(ctx context.Context, id int64, was, text, by string) (memory.Note, error)
	// Forget deletes notes and returns them.
	Forget(ctx context.Context, f Forget) ([]memory.Note, error)
}
