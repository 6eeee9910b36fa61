package rest

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flynnhost/flynn/host/gateway"
)

// Bounds of what reads whole conversations.
const (
	talkTimeout = 25 * time.Second
	maxExport   = 256 << 20 // bytes
)

// registerTalk adds what is done with conversations as a whole.
func (c conversations) registerTalk(r *registrar) {
	const subject, path = "Conversations", "/conversations/{channel}/{conversation}"
	type words struct {
		Paging
		Q string `query:"q" required:"true" minLength:"1" maxLength:"200" doc:"Words, all of which were said; the last may be the beginning of one"`
	}
	add(r, Operation{ID: "search", Method: http.MethodGet, Path: "/search", Subject: subject, Least: guest, Timeout: talkTimeout,
		Summary: "What was said with some words, latest first"},
		func(ctx context.Context, by gateway.Caller, in *words) (gateway.Page[gateway.Hit], error) {
			of := by.Sender
			if by.Owner() {
				of = ""
			}
			return wholeOr(c.Search(ctx, in.Q, of, in.Cursor, in.Limit))
		})
	type title struct {
		InConversation
		Body struct {
			Title string `json:"title" minLength:"1" maxLength:"200" pattern:"\\S" patternDescription:"not only spaces"`
		}
	}
	act(r, Operation{ID: "rename-conversation", Method: http.MethodPatch, Path: path, Subject: subject, Least: guest, Summary: "Give a conversation a title"},
		func(ctx context.Context, by gateway.Caller, in *title) error {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return err
			}
			return c.Rename(ctx, in.Channel, in.Conversation, in.Body.Title)
		})
	type fork struct {
		InConversation
		Body gateway.Fork
	}
	add(r, Operation{ID: "fork-conversation", Method: http.MethodPost, Path: path + "/forks", Subject: subject, Least: guest,
		Timeout: talkTimeout, Status: http.StatusCreated,
		Summary: "Begin a conversation of one's own with what was said here up to an entry, and a copy of the files if they fit"},
		func(ctx context.Context, by gateway.Caller, in *fork) (gateway.Forked, error) {
			if err := may(ctx, c.Conversations, by, in.Channel, in.Conversation); err != nil {
				return gateway.Forked{}, err
			}
			return c.Fork(ctx, in.Channel, in.Conversation, in.Body, by)
		})
	c.registerUndo(r)
	c.registerExport(r, Operation{ID: "export-conversation", Method: http.MethodGet, Path: path + "/export", Subject: subject, Least: guest, Timeout: talkTimeout,
		Summary: "A conversation as a file: as Markdown, or its sessions as flynn session export writes them"})
}

// registerExport adds the operation that answers with a file.
func (c conversations) registerExport(r *registrar, op Operation) {
	type export struct {
		InConversation
		Format string `query:"format" enum:"markdown,jsonl" default:"markdown"`
	}
	types := map[string]string{"markdown": "text/markdown; charset=utf-8", "jsonl": "application/jsonl"}
	described := r.describe(op)
	described.Responses = map[string]*huma.Response{"200": {Description: "The file",
		Content: map[string]*huma.MediaType{"text/markdown": {}, "application/jsonl": {}}}}
	huma.Register(r.huma, described, func(ctx context.Context, in *export) (*huma.StreamResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout(op))
		defer cancel()
		by := gateway.CallerOf(ctx)
		err := may(ctx, c.Conversations, by, in.Channel, in.Conversation)
		if err == nil && in.Format == "jsonl" && !by.Owner() { // a session may go beyond the conversation
			err = problem{gateway.NewProblem(http.StatusForbidden, gateway.CodeForbidden, "jsonl is for owners; ask for markdown")}
		}
		if err != nil {
			return nil, r.problem(op, err)
		}
		var file bounded // whole before the answer begins, so that a part of it does not pass for all
		if err = c.Export(ctx, in.Channel, in.Conversation, in.Format == "markdown", &file); err != nil {
			return nil, r.problem(op, err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			ctx.SetHeader("Content-Type", types[in.Format])
			ctx.SetHeader("Content-Disposition", "attachment")
			_, _ = file.WriteTo(ctx.BodyWriter())
		}}, nil
	})
}

// bounded is a buffer that takes maxExport bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxExport {
		return 0, gateway.BadRequest("the conversation is too long; flynn session export writes it to a file")
	}
	return b.Buffer.Write(p)
}
