package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	notes "github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
)

// memory shows what agents remember, and lets people correct it.
type memory struct{ gateway.Memory }

func (m memory) register(r *registrar) {
	const subject = "Memory"
	type filter struct {
		gateway.NoteFilter
		Paging
	}
	add(r, Operation{ID: "list-notes", Method: http.MethodGet, Path: "/memory/notes", Subject: subject, Least: owner,
		Summary: "Notes, the latest first, with where they are from"},
		func(ctx context.Context, _ gateway.Caller, in *filter) (gateway.Page[notes.Note], error) {
			return m.page(ctx, in.NoteFilter, in.Paging)
		})
	type mending struct {
		ID   int64 `path:"id" minimum:"1"`
		Body struct {
			Was  string `json:"was" maxLength:"16384" doc:"The text to correct, as it was read: another text by now is a conflict"`
			Text string `json:"text" minLength:"1" maxLength:"16384"`
		}
	}
	add(r, Operation{ID: "mend-note", Method: http.MethodPatch, Path: "/memory/notes/{id}", Subject: subject, Least: owner, Body: 256 << 10,
		Summary: "Correct the text of a note; who did so, and when, is kept"},
		func(ctx context.Context, by gateway.Caller, in *mending) (notes.Note, error) {
			return m.MendNote(ctx, in.ID, in.Body.Was, in.Body.Text, string(by.Sender))
		})
	type choice struct{ Body gateway.Forget }
	add(r, Operation{ID: "forget", Method: http.MethodPost, Path: "/memory/forget", Subject: subject, Least: owner, Timeout: deleteTimeout,
		Summary: "Delete notes; answers with them"},
		func(ctx context.Context, _ gateway.Caller, in *choice) ([]notes.Note, error) {
			if len(in.Body.Queries()) == 0 {
				return nil, gateway.BadRequest(`choose notes by {"ids":[N]}, "person", "agent", "key" or "shared"`)
			}
			return orEmpty(m.Forget(ctx, in.Body))
		})
}

func (m memory) page(ctx context.Context, f gateway.NoteFilter, p Paging) (gateway.Page[notes.Note], error) {
	q, err := f.Query()
	if err == nil && p.Cursor != "" {
		q.Before, err = positionOf(p.Cursor)
	}
	if err != nil {
		return gateway.Page[notes.Note]{}, err
	}
	q.Limit = p.Limit + 1
	list, err := m.Notes(ctx, q)
	return gateway.PageOf(list, p.Limit, func(n notes.Note) string { return fmt.Sprintf("%d-%d", n.Updated.UnixNano(), n.ID) }), err
}

// positionOf reads a cursor of notes.
func positionOf(cursor string) (*notes.Position, error) {
	at, id, _ := strings.Cut(cursor, "-")
	nanos, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		var n int64
		if n, err = strconv.ParseInt(id, 10, 64); err == nil {
			return &notes.Position{Updated: time.Unix(0, nanos), ID: n}, nil
		}
	}
	return nil, gateway.ErrBadCursor
}
