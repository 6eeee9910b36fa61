package gateway

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/agent/memory"
)

// Forget chooses notes to be deleted: by their ids, or all of a person, an agent or a key. Something has to be named.
type Forget struct {
	IDs    []int64 `json:"ids,omitempty"`
	Agent  string  `json:"agent,omitempty"`
	Person string  `json:"person,omitempty"`
	Shared bool    `json:"shared,omitempty"` // those that are about nobody
	Key    string  `json:"key,omitempty"`
}

// maxForget bounds the ids of one request.
const maxForget = 1000

// Queries are what has to be deleted, or nothing where the choice would be everything.
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

// From deletes the notes that f chooses, and returns what they were.
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

// Memory is what agents remember.
type Memory interface {
	// Forget deletes notes and returns what they were.
	Forget(ctx context.Context, f Forget) ([]memory.Note, error)
}

func (s *Server) forgetNotes(w http.ResponseWriter, r *http.Request) {
	var body Forget
	if !readBody(w, r, &body) {
		return
	}
	if len(body.Queries()) == 0 {
		writeError(w, http.StatusBadRequest, CodeBadRequest, `choose notes by {"ids":[N]}, "person", "agent", "key" or "shared"`)
		return
	}
	notes, err := s.backend.Memory.Forget(r.Context(), body)
	if notes == nil {
		notes = []memory.Note{}
	}
	s.answer(w, notes, err)
}
