package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/route"
)

// The least role that may use an operation.
const (
	anybody = "" // without a token
	guest   = route.Guest
	owner   = route.Owner
)

// usual bounds an operation that says nothing else.
const usual = 10 * time.Second

// Operation describes one operation, for the router, the OpenAPI document and the tests that try every operation as each role.
type Operation struct {
	ID      string // verb-noun, unique
	Method  string
	Path    string // below Prefix
	Subject string // under which the document lists it
	Summary string // one line
	// Least is the least role that may use it. An operation for guests and members answers them only with what is theirs.
	Least string
	// Timeout is usual if it is 0.
	Timeout time.Duration
	// Body bounds the body of a request, in bytes; 0 is gateway.MaxBody.
	Body int64
	// Takes is the media type of a body that is read as it comes.
	Takes string
	// Status of success; 0 is 200, or 204 for an operation without an answer.
	Status int
	// Secret is true if the answer has a secret, which is not kept for repetitions.
	Secret bool
}

// registrar takes operations.
type registrar struct {
	*served
	log   *slog.Logger
	keyed *keyed // nil if requests take no keys
}

// answer is what the library needs around a body.
type answer[T any] struct{ Body T }

// add adds an operation that answers with a value. In has fields with the tags path, query and header, and one named Body.
func add[In, Out any](r *registrar, op Operation, do func(ctx context.Context, by gateway.Caller, in *In) (Out, error)) {
	huma.Register(r.huma, r.describe(op), func(ctx context.Context, in *In) (*answer[Out], error) {
		ctx, cancel := context.WithTimeout(ctx, timeout(op))
		defer cancel()
		out, err := do(ctx, gateway.CallerOf(ctx), in)
		if err != nil {
			return nil, r.problem(op, err)
		}
		return &answer[Out]{out}, nil
	})
}

// act adds an operation that answers with nothing.
func act[In any](r *registrar, op Operation, do func(ctx context.Context, by gateway.Caller, in *In) error) {
	huma.Register(r.huma, r.describe(op), func(ctx context.Context, in *In) (*struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout(op))
		defer cancel()
		if err := do(ctx, gateway.CallerOf(ctx), in); err != nil {
			return nil, r.problem(op, err)
		}
		return nil, nil
	})
}

func timeout(op Operation) time.Duration {
	if op.Timeout > 0 {
		return op.Timeout
	}
	return usual
}

// describe notes an operation and returns it as the library wants it.
func (r *registrar) describe(op Operation) huma.Operation {
	r.ops = append(r.ops, op)
	var request *huma.RequestBody
	if op.Takes != "" {
		request = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{op.Takes: {}}}
	}
	return huma.Operation{
		RequestBody: request,
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Tags: []string{op.Subject}, DefaultStatus: op.Status,
		MaxBodyBytes: bodyOf(op), BodyReadTimeout: -1, // the server has a deadline for whole requests
		Description: map[string]string{anybody: "For anybody, without a token.", guest: "For guests and above.", owner: "For owners."}[op.Least],
		Middlewares: huma.Middlewares{r.admit(op), r.keyed.middleware(op)}, Parameters: r.keyed.parameters(op), Security: security(op),
	}
}

func bodyOf(op Operation) int64 {
	if op.Body > 0 {
		return op.Body
	}
	return gateway.MaxBody
}

// security says which token an operation needs; nil stands for that of the document.
func security(op Operation) []map[string][]string {
	if op.Least == anybody {
		return []map[string][]string{{}}
	}
	return nil
}

// admit lets callers through who may use an operation. It is the one place where the API asks for a role.
func (r *registrar) admit(op Operation) func(ctx huma.Context, next func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if by := gateway.CallerOf(ctx.Context()); !by.May(op.Least) {
			refuse(ctx, gateway.NewProblem(http.StatusForbidden, gateway.CodeForbidden, "this is for "+op.Least+"s; you are "+role(by)))
			return
		}
		if why := malformed(ctx); why != "" {
			refuse(ctx, gateway.NewProblem(http.StatusBadRequest, gateway.CodeBadRequest, why))
			return
		}
		outlast(ctx, op)
		next(ctx)
	}
}

// outlast moves the server's deadlines, which are those of short requests, behind the end of a long operation. Once its body is read, the
// connection is only read to notice that the client has gone, and that must not end it by a deadline either.
func outlast(ctx huma.Context, op Operation) {
	if op.Timeout <= usual {
		return
	}
	_, w := humago.Unwrap(ctx)
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(op.Timeout + usual))
	_ = c.SetWriteDeadline(time.Now().Add(op.Timeout + usual)) // a recorder of a test has none
}

// malformed is what is wrong with a request before its values are looked at; empty if nothing is.
func malformed(ctx huma.Context) string {
	u := ctx.URL()
	query, err := url.QueryUnescape(u.RawQuery)
	switch takes := ctx.Operation().RequestBody; {
	case err != nil || !printable(u.Path) || !printable(query):
		return "the address has characters that no name has"
	case takes != nil && ctx.Header("Content-Type") == "":
		return "send a Content-Type" // which every page of another site has to ask for
	case takes == nil:
		if n, _ := io.ReadFull(ctx.BodyReader(), make([]byte, 1)); n > 0 {
			return "this request has no body"
		}
	}
	return ""
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func refuse(ctx huma.Context, p *gateway.Problem) {
	ctx.SetHeader("Content-Type", gateway.ProblemType) // before the status, which ends the headers
	ctx.SetStatus(p.Status)
	_ = strictJSON.Marshal(ctx.BodyWriter(), p)
}

func role(by gateway.Caller) string {
	if by.Role == "" {
		return "nobody here"
	}
	return "a " + by.Role
}

// problem turns an error of the backend into the answer.
func (r *registrar) problem(op Operation, err error) problem {
	p := gateway.ProblemOf(err)
	if p.Status >= http.StatusInternalServerError {
		r.log.Warn("gateway request failed", "operation", op.ID, "error", err)
	}
	return problem{p}
}
