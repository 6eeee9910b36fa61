package rest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// sessions shows, exports, imports and deletes sessions.
type sessions struct{ gateway.Sessions }

const importTimeout = 25 * time.Second

// sessionType is the media type of an exported session.
const sessionType = "application/jsonl"

// OfSession is the path of what belongs to a session.
type OfSession struct {
	Key message.SessionKey `path:"key" minLength:"1" maxLength:"1024" doc:"channel:conversation:agent"`
}

func (s sessions) register(r *registrar) {
	const subject = "Sessions"
	add(r, Operation{ID: "list-sessions", Method: http.MethodGet, Path: "/sessions", Subject: subject, Least: owner, Summary: "All sessions, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *Paging) (gateway.Page[gateway.SessionInfo], error) {
			list, err := s.Sessions.Sessions(ctx)
			at := func(v gateway.SessionInfo) string { return gateway.Position(v.Last, string(v.Key)) }
			slices.SortFunc(list, func(a, b gateway.SessionInfo) int { return cmp.Compare(at(b), at(a)) })
			return gateway.PageFrom(list, in.Cursor, in.Limit, at), err
		})
	type pieces struct {
		OfSession
		Paging
	}
	add(r, Operation{ID: "get-transcript", Method: http.MethodGet, Path: "/sessions/{key}/transcript", Subject: subject, Least: owner,
		Summary: "What was said and done in a session, oldest first; the limit counts turns"},
		func(ctx context.Context, _ gateway.Caller, in *pieces) (gateway.Page[session.Piece], error) {
			return wholeOr(s.Transcript(ctx, in.Key, in.Cursor, in.Limit))
		})
	export(r, Operation{ID: "export-session", Method: http.MethodGet, Path: "/sessions/{key}/export", Subject: subject, Least: owner,
		Summary: "A session as the file that import-session takes"}, sessionType, "flynn-session.jsonl",
		func(ctx context.Context, _ gateway.Caller, in *OfSession, w io.Writer) error {
			return s.ExportSession(ctx, in.Key, w)
		})
	type removal struct {
		OfSession
		Stop bool `query:"stop" doc:"End a running turn first; without it the deletion is refused while one runs"`
	}
	act(r, Operation{ID: "delete-session", Method: http.MethodDelete, Path: "/sessions/{key}", Subject: subject, Least: owner, Timeout: deleteTimeout,
		Summary: "Delete a session, with its files"},
		func(ctx context.Context, by gateway.Caller, in *removal) error {
			return s.DeleteSession(ctx, in.Key, string(by.Sender), in.Stop)
		})
	type file struct{ Streamed }
	add(r, Operation{ID: "import-session", Method: http.MethodPost, Path: "/sessions/import", Subject: subject, Least: owner,
		Timeout: importTimeout, Body: gateway.MaxImport,
		Takes: sessionType, Summary: "Import a file of flynn session export"},
		func(ctx context.Context, _ gateway.Caller, in *file) (gateway.SessionInfo, error) {
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
