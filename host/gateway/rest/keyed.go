package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// KeyHeader gives a request that writes a key: sent again with the same key, it is answered as before and not carried out again.
const KeyHeader = "Idempotency-Key"

const (
	maxKey    = 128
	keyedFor  = 24 * time.Hour
	maxKeyed  = 10_000    // of one caller
	maxAnswer = 256 << 10 // bytes of an answer that is kept
)

// keyed carries out requests with keys once.
type keyed struct {
	store store.KeyedWrites
	mu    sync.Mutex
	runs  map[[2]string]bool // by caller and key
}

func newKeyed(s store.KeyedWrites) *keyed { return &keyed{store: s, runs: map[[2]string]bool{}} }

// takes reports whether an operation takes keys: those that write, but for files, which would have to be kept to be compared, and for
// callers whom nothing tells apart.
func (k *keyed) takes(op Operation) bool {
	return k != nil && op.Method != http.MethodGet && op.Takes == "" && op.Least != anybody
}

// parameters describes the header.
func (k *keyed) parameters(op Operation) []*huma.Param {
	if !k.takes(op) {
		return nil
	}
	most := maxKey
	return []*huma.Param{{
		Name: KeyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &most},
		Description: "Made by the client for one request: within a day the same request with the same key is answered as before and not carried out again",
	}}
}

// middleware is what an operation does about the header.
func (k *keyed) middleware(op Operation) func(ctx huma.Context, next func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		key := ctx.Header(KeyHeader)
		switch {
		case key == "":
			next(ctx)
		case !k.takes(op):
			refuse(ctx, gateway.NewProblem(http.StatusBadRequest, gateway.CodeBadRequest, "this operation takes no "+KeyHeader))
		case len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
			refuse(ctx, gateway.NewProblem(http.StatusBadRequest, gateway.CodeBadRequest, fmt.Sprintf("%s must be 1 to %d visible ASCII characters", KeyHeader, maxKey)))
		default:
			k.once(op, key, ctx, next)
		}
	}
}

// once carries out a request unless its key was used before.
func (k *keyed) once(op Operation, key string, ctx huma.Context, next func(huma.Context)) {
	request, w := humago.Unwrap(ctx)
	body, err := io.ReadAll(io.LimitReader(request.Body, bodyOf(op)+1)) // one more: then the operation refuses it
	if err != nil {
		refuse(ctx, gateway.ProblemOf(err))
		return
	}
	write := store.KeyedWrite{Caller: string(gateway.CallerOf(ctx.Context()).Sender), Key: key, Print: fingerprint(request, body), Begun: time.Now()}
	if !k.enter(write) {
		refuse(ctx, conflict("a request with this key is still running"))
		return
	}
	defer k.leave(write)
	found, fresh, err := k.store.BeginKeyed(ctx.Context(), write, write.Begun.Add(-keyedFor), maxKeyed)
	switch {
	case errors.Is(err, store.ErrNoRoom):
		refuse(ctx, gateway.NewProblem(http.StatusTooManyRequests, gateway.CodeLimited, "too many keys within a day; send requests without one"))
	case err != nil:
		refuse(ctx, gateway.ProblemOf(err))
	case !fresh:
		again(ctx, found, write.Print)
	default:
		// A client that goes away does not interrupt what it has asked for.
		kept := &keeper{ResponseWriter: w}
		request = request.WithContext(context.WithoutCancel(request.Context()))
		request.Body = io.NopCloser(bytes.NewReader(body))
		next(humago.NewContext(ctx.Operation(), request, kept))
		_ = k.store.EndKeyed(request.Context(), kept.answer(write, op.Secret)) // without it, the outcome counts as unknown
	}
}

func (k *keyed) enter(w store.KeyedWrite) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := [2]string{w.Caller, w.Key}
	if k.runs[id] {
		return false
	}
	k.runs[id] = true
	return true
}

func (k *keyed) leave(w store.KeyedWrite) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, [2]string{w.Caller, w.Key})
}

// again answers a request whose key was used before.
func again(ctx huma.Context, found store.KeyedWrite, print []byte) {
	switch {
	case !bytes.Equal(found.Print, print):
		refuse(ctx, gateway.NewProblem(http.StatusUnprocessableEntity, gateway.CodeNotAllowed, "this key was used for another request; make a new one"))
	case !found.Done, found.Status >= http.StatusInternalServerError:
		refuse(ctx, conflict("a request with this key began at "+found.Begun.Format(time.RFC3339)+
			" and its outcome is unknown; look whether its effect is there (GET the thing or its list), and send it with a new key if it is not"))
	case found.Status == 0:
		refuse(ctx, conflict("a request with this key was carried out, and its answer is not kept"))
	default:
		ctx.SetHeader("Idempotency-Replayed", "true")
		if found.Type != "" {
			ctx.SetHeader("Content-Type", found.Type)
		}
		ctx.SetStatus(found.Status)
		_, _ = ctx.BodyWriter().Write(found.Body)
	}
}

func conflict(detail string) *gateway.Problem {
	return gateway.NewProblem(http.StatusConflict, gateway.CodeConflict, detail)
}

func fingerprint(r *http.Request, body []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %q\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	h.Write(body)
	return h.Sum(nil)
}

// keeper passes an answer on, and remembers it.
type keeper struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	more   bool // than is kept
}

func (k *keeper) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *keeper) Write(p []byte) (int, error) {
	if k.more = k.more || k.body.Len()+len(p) > maxAnswer; !k.more {
		k.body.Write(p)
	}
	return k.ResponseWriter.Write(p)
}

// answer returns a request with its answer, if that may be kept.
func (k *keeper) answer(w store.KeyedWrite, secret bool) store.KeyedWrite {
	w.Done = true
	if k.more || secret && k.status < http.StatusBadRequest {
		return w
	}
	w.Status, w.Type, w.Body = k.status, k.Header().Get("Content-Type"), k.body.Bytes()
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	return w
}
