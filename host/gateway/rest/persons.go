package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// persons shows all that the host has of people, gives it to them, and deletes it.
type persons struct{ gateway.People }

const eraseTimeout = 25 * time.Second

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
	export(r, Operation{ID: "export-person", Method: http.MethodGet, Path: "/people/{sender}/export", Subject: subject, Least: guest,
		Summary: "What the host has of a person, as a zip file; members and guests ask for their own"},
		"application/zip", "flynn-export.zip",
		func(ctx context.Context, by gateway.Caller, in *OfPerson, w io.Writer) error {
			if err := oneself(by, in.Sender); err != nil {
				return err
			}
			if _, err := p.Person(ctx, in.Sender); err != nil {
				return err
			}
			return p.Export(ctx, in.Sender, w)
		})
}

// oneself refuses members and guests what is another person's, as if there were nobody of that name.
func oneself(by gateway.Caller, sender message.SenderKey) error {
	if by.Owner() || by.Sender == sender {
		return nil
	}
	return store.NotFound("nobody of this name is you")
}
