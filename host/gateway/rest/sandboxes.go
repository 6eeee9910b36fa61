package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// sandboxes shows the live sandboxes, their files, and what their programs asked for.
type sandboxes struct{ gateway.Sandboxes }

// InWorkspace is a path in the workspace of a live sandbox.
type InWorkspace struct {
	ID   string `path:"id" minLength:"1" maxLength:"128" doc:"Of a live sandbox"`
	Path string `query:"path" maxLength:"4096" doc:"In the workspace; empty is the workspace"`
	Ref  string `query:"ref" maxLength:"8192" doc:"The ref of an entry instead, whose name may have any bytes"`
}

// name returns the path.
func (in InWorkspace) name() (string, error) {
	if in.Ref == "" {
		return cmp.Or(in.Path, "."), nil
	}
	b, err := base64.RawURLEncoding.DecodeString(in.Ref)
	if err != nil || in.Path != "" {
		return "", gateway.BadRequest("ref is none that a list had, or path is there as well")
	}
	return string(b), nil
}

func (s sandboxes) register(r *registrar) {
	const subject = "Sandboxes"
	add(r, Operation{ID: "list-sandboxes", Method: http.MethodGet, Path: "/sandboxes", Subject: subject, Least: owner,
		Summary: "The live sandboxes, the oldest first"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.LiveSandbox, error) {
			return orEmpty(s.Sandboxes.Sandboxes(ctx))
		})
	add(r, Operation{ID: "list-containers", Method: http.MethodGet, Path: "/sandboxes/containers", Subject: subject, Least: owner,
		Summary: "All containers of this host on the engine, with those of the pool and the paused ones"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.Container, error) {
			return orEmpty(s.Containers(ctx))
		})
	add(r, Operation{ID: "list-sandbox-rules", Method: http.MethodGet, Path: "/sandboxes/rules", Subject: subject, Least: owner,
		Summary: "The configured sandboxes, and what programs in them may reach"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.SandboxRules, error) {
			return orEmpty(s.SandboxRules(ctx))
		})
	s.files(r, subject)
	type filter struct {
		Paging
		SinceTime
		Session string `query:"session" maxLength:"1024"`
		Agent   string `query:"agent" maxLength:"256"`
		Person  string `query:"person" maxLength:"1024" doc:"A sender: what was asked for in conversations in which he took part"`
		Denied  bool   `query:"denied" doc:"Refused ones only"`
	}
	add(r, Operation{ID: "list-egress", Method: http.MethodGet, Path: "/egress", Subject: subject, Least: owner,
		Summary: "What programs in sandboxes asked the network for, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *filter) (gateway.Page[egress.Record], error) {
			return listOf(s.Egress(ctx, egress.RecordFilter{
				Session: in.Session, Agent: in.Agent, Person: message.SenderKey(in.Person), Denied: in.Denied, Since: in.Since, Before: in.Cursor, Limit: in.Limit,
			}))
		})
	type start struct {
		Body struct {
			Sandbox string `json:"sandbox,omitempty" maxLength:"256" doc:"The name of a configured one; empty is [sandbox]"`
		}
	}
	add(r, Operation{ID: "start-selftest", Method: http.MethodPost, Path: "/sandboxes/selftest", Subject: subject, Least: owner,
		Status: http.StatusAccepted, Timeout: askingTimeout, Summary: "Attack a sandbox of a configured kind from inside; one at a time"},
		func(ctx context.Context, by gateway.Caller, in *start) (selftest.State, error) {
			return s.StartSelfTest(ctx, in.Body.Sandbox, string(by.Sender))
		})
	add(r, Operation{ID: "get-selftest", Method: http.MethodGet, Path: "/sandboxes/selftest", Subject: subject, Least: owner,
		Summary: "The last self-test, or the one under way with its results so far"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (selftest.State, error) {
			return s.SelfTest(ctx)
		})
}

// files adds the operations of workspaces.
func (s sandboxes) files(r *registrar, subject string) {
	add(r, Operation{ID: "list-sandbox-files", Method: http.MethodGet, Path: "/sandboxes/{id}/files", Subject: subject, Least: owner,
		Summary: "A folder of the workspace of a live sandbox"},
		func(ctx context.Context, _ gateway.Caller, in *InWorkspace) (gateway.SandboxFolder, error) {
			name, err := in.name()
			if err != nil {
				return gateway.SandboxFolder{}, err
			}
			return s.SandboxFiles(ctx, in.ID, name)
		})
	download(r, Operation{ID: "get-sandbox-file", Method: http.MethodGet, Path: "/sandboxes/{id}/file", Subject: subject, Least: owner, Timeout: fileTimeout,
		Summary: "A file of the workspace of a live sandbox, as it is"},
		func(ctx context.Context, _ gateway.Caller, in *InWorkspace) (io.ReadCloser, string, int64, error) {
			name, err := in.name()
			if err != nil {
				return nil, "", 0, err
			}
			f, info, err := s.OpenSandboxFile(ctx, in.ID, name)
			return f, info.Name, info.Size, err
		})
}

// download adds an operation that answers with a file, which browsers keep and never show.
func download[In any](r *registrar, op Operation,
	open func(ctx context.Context, by gateway.Caller, in *In) (f io.ReadCloser, name string, size int64, err error)) {
	made := r.describe(op)
	made.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/octet-stream": {}}}}
	huma.Register(r.huma, made, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout(op))
		f, name, size, err := open(ctx, gateway.CallerOf(ctx), in)
		if err == nil && size > gateway.MaxFile {
			err = fmt.Errorf("%w: it has %d bytes; %d are given out here: use flynn sandbox cp", gateway.ErrNotKept, size, int64(gateway.MaxFile))
			_ = f.Close()
		}
		if err != nil {
			cancel()
			return nil, r.problem(op, err)
		}
		return &huma.StreamResponse{Body: func(out huma.Context) {
			defer cancel()
			defer f.Close()
			out.SetHeader("Content-Type", "application/octet-stream")
			out.SetHeader("X-Content-Type-Options", "nosniff")
			out.SetHeader("Content-Disposition", attachment(name))
			out.SetHeader("Content-Length", strconv.FormatInt(size, 10)) // one that ends early is seen to be cut
			_, _ = io.Copy(out.BodyWriter(), f)
		}}, nil
	})
}

// attachment is the Content-Disposition of a name that a stranger may have chosen: neither a header nor a file manager can be led astray by it.
func attachment(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c == '"' || c == 0xFFFD || !strconv.IsPrint(c) {
			return '_'
		}
		return c
	}, name)
	return mime.FormatMediaType("attachment", map[string]string{"filename": cmp.Or(strings.Trim(name, ". "), "file")})
}
