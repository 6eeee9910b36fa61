package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// sessions imports and deletes sessions.
type sessions struct{ gateway.Sessions }

const importTimeout = 25 * time.Second

func (s sessions) register(r *registrar) {
	const subject = "Sessions"
	type removal struct {
		Key  message.SessionKey `path:"key" minLength:"1" maxLength:"1024" doc:"channel:conversation:agent"`
		Stop bool               `query:"stop" doc:"End a running turn first; without it the deletion is refused while one runs"`
	}
	act(r, Operation{ID: "delete-session", Method: http.MethodDelete, Path: "/sessions/{key}", Subject: subject, Least: owner, Timeout: deleteTimeout,
		Summary: "Delete a session, with its files"},
		func(ctx context.Context, by gateway.Caller, in *removal) error {
			return s.DeleteSession(ctx, in.Key, string(by.Sender), in.Stop)
		})
	type file struct{ Streamed }
	add(r, Operation{ID: "import-session", Method: http.MethodPost, Path: "/sessions/import", Subject: subject, Least: owner,
		Timeout: importTimeout, Body: gateway.MaxImport,
		Takes: "application/jsonl", Summary: "Import a file of flynn session export"},
		func(ctx context.Context, _ gateway.Caller, in *file) (gateway.ImportedSession, error) {
			return s.ImportSession(ctx, in.body)
		})
}

// Streamed is the body of a request that is read as it comes. The operation says by Takes of which type it is.
type Streamed struct{ body bodyReader }

type bodyReader interface{ Read(p []byte) (int, error) }

// Resolve implements huma.Resolver.
func (s *Streamed) Resolve(ctx huma.Context) []error {
	takes := ctx.Operation().RequestBody.Content
	if _, ok := takes[ctx.Header("Content-Type")]; !ok { // no HTML form sends such a type
		for kind := range takes {
			return []error{&huma.ErrorDetail{Location: "header.Content-Type", Message: "send " + kind}}
		}
	}
	s.body = ctx.BodyReader()
	return nil
}
