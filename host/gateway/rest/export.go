package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
)

// exportTimeout bounds an answer that is written as it is made.
const exportTimeout = 10 * time.Minute

// export adds an operation that answers with a file, which write writes as it is made. An error before the first byte is a problem; a later
// one breaks the connection, so that the client does not take a part for the whole.
func export[In any](r *registrar, op Operation, kind, name string, write func(ctx context.Context, by gateway.Caller, in *In, w io.Writer) error) {
	described := r.describe(op)
	described.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{kind: {}}}}
	huma.Register(r.huma, described, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		by := gateway.CallerOf(ctx)
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			request, w := humago.Unwrap(ctx)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout))
			bounded, cancel := context.WithTimeout(request.Context(), exportTimeout)
			defer cancel()
			out := &exported{w: w, kind: kind, name: name}
			err := write(bounded, by, in, out)
			switch {
			case err == nil:
				out.begin()
			case out.begun:
				r.log.Warn("an answer was cut off", "operation", op.ID, "error", err)
				panic(http.ErrAbortHandler)
			default:
				refuse(ctx, r.problem(op, err).Problem)
			}
		}}, nil
	})
}

// exported is an answer that begins with its first byte.
type exported struct {
	w          http.ResponseWriter
	kind, name string
	begun      bool
}

func (s *exported) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		s.w.Header().Set("Content-Disposition", attachment(s.name))
		s.w.WriteHeader(http.StatusOK)
	}
}

// Write implements io.Writer.
func (s *exported) Write(p []byte) (int, error) {
	s.begin()
	return s.w.Write(p)
}
