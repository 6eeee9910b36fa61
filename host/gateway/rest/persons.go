package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// persons shows all that the host has of people, gives it to them, and deletes it.
type persons struct{ gateway.People }

// Bounds of what takes longer than other answers.
const (
	eraseTimeout  = 25 * time.Second
	exportTimeout = 10 * time.Minute
)

// exportType is the media type of an export.
const exportType = "application/zip"

func (p persons) register(r *registrar) {
	const subject = "People"
	type query struct {
		Cursor message.SenderKey `query:"cursor" maxLength:"1024" doc:"The next of the answer before"`
		Words  string            `query:"words" maxLength:"256" doc:"Part of a name or an id"`
		Limit  int               `query:"limit" minimum:"1" maximum:"500" default:"100"`
	}
	add(r, Operation{ID: "list-known", Method: http.MethodGet, Path: "/people/known", Subject: subject, Least: owner,
		Summary: "Everybody who asked, is in, is listed by id in flynn.toml or was answered, by id"},
		func(ctx context.Context, _ gateway.Caller, in *query) (gateway.Page[gateway.AccessEntry], error) {
			list, err := p.Known(ctx, in.Cursor, in.Words, in.Limit+1)
			next := ""
			if len(list) > in.Limit {
				list, next = list[:in.Limit], string(list[in.Limit-1].Sender)
			}
			return listOf(list, next, err)
		})
	add(r, Operation{ID: "get-person", Method: http.MethodGet, Path: "/people/{sender}", Subject: subject, Least: guest,
		Summary: "What the host has of a person; members and guests ask about themselves"},
		func(ctx context.Context, by gateway.Caller, in *OfPerson) (gateway.Person, error) {
			if err := oneself(by, in.Sender); err != nil {
				return gateway.Person{}, err
			}
			return p.Person(ctx, in.Sender)
		})
	act(r, Operation{ID: "block-person", Method: http.MethodPut, Path: "/people/{sender}/block", Subject: subject, Least: owner, Timeout: reloadTimeout,
		Summary: "Never answer somebody, by access.blocked of flynn.toml"},
		func(ctx context.Context, by gateway.Caller, in *OfPerson) error {
			return p.SetBlocked(ctx, in.Sender, true, string(by.Sender))
		})
	act(r, Operation{ID: "unblock-person", Method: http.MethodDelete, Path: "/people/{sender}/block", Subject: subject, Least: owner, Timeout: reloadTimeout,
		Summary: "Take somebody out of access.blocked of flynn.toml"},
		func(ctx context.Context, by gateway.Caller, in *OfPerson) error {
			return p.SetBlocked(ctx, in.Sender, false, string(by.Sender))
		})
	add(r, Operation{ID: "erase-person", Method: http.MethodDelete, Path: "/people/{sender}/data", Subject: subject, Least: owner, Timeout: eraseTimeout,
		Summary: "Delete what the host has of a person, with the pairing; the audit log keeps that it happened"},
		func(ctx context.Context, by gateway.Caller, in *OfPerson) (gateway.Erased, error) {
			return p.Erase(ctx, in.Sender, string(by.Sender))
		})
	p.export(r, Operation{ID: "export-person", Method: http.MethodGet, Path: "/people/{sender}/export", Subject: subject, Least: guest,
		Summary: "What the host has of a person, as a zip file; members and guests ask for their own"})
}

// oneself refuses members and guests what is another person's, as if there were nobody of that name.
func oneself(by gateway.Caller, sender message.SenderKey) error {
	if by.Owner() || by.Sender == sender {
		return nil
	}
	return store.NotFound("nobody of this name is you")
}

// export adds the operation that answers with a file, which is written as it is made.
func (p persons) export(r *registrar, op Operation) {
	described := r.describe(op)
	described.Responses = map[string]*huma.Response{"200": {
		Description: "person.json names what else is in it", Content: map[string]*huma.MediaType{exportType: {}},
	}}
	huma.Register(r.huma, described, func(ctx context.Context, in *OfPerson) (*huma.StreamResponse, error) {
		by := gateway.CallerOf(ctx)
		err := oneself(by, in.Sender)
		if err == nil {
			_, err = p.Person(ctx, in.Sender) // before the answer begins
		}
		if err != nil {
			return nil, r.problem(op, err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			request, w := humago.Unwrap(ctx)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout))
			bounded, cancel := context.WithTimeout(request.Context(), exportTimeout)
			defer cancel()
			w.Header().Set("Content-Type", exportType)
			w.Header().Set("Content-Disposition", `attachment; filename="flynn-export.zip"`)
			if err := p.Export(bounded, in.Sender, w); err != nil {
				r.log.Warn("an export was cut off", "operation", op.ID, "error", err)
				panic(http.ErrAbortHandler) // so that the client does not take it for whole
			}
		}}, nil
	})
}
