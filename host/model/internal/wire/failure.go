package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"unicode"

	"github.com/flynnhost/flynn/host/model"
)

// failure is the error that an API reports.
type failure struct {
	kind, code, message string
	explicit            bool // the body said "error", it was not merely some text
}

// parseFailure reads the error bodies of both vendors and of the servers that imitate them:
// {"error":{...}}, {"error":"text"}, [{"error":{...}}], {"message":...}, {"detail":...}, or plain text.
func parseFailure(body []byte) failure {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return failure{message: string(body)}
	}
	inner, explicit := outer["error"]
	if !explicit || string(inner) == "null" {
		return failure{kind: text(outer["type"]), code: text(outer["code"]), message: firstText(outer["message"], outer["detail"], body)}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(inner, &fields) != nil {
		return failure{message: text(inner), explicit: true}
	}
	return failure{kind: text(fields["type"]), code: text(fields["code"]), message: firstText(fields["message"], inner), explicit: true}
}

// text is the string of a JSON string, or the JSON itself.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func firstText(raws ...json.RawMessage) string {
	for _, raw := range raws {
		if s := text(raw); s != "" && s != "null" {
			return s
		}
	}
	return ""
}

// kindByName classes the error types and codes of the APIs. They refine the status and never contradict it.
var kindByName = map[string]model.Kind{
	"authentication_error":      model.Auth,
	"permission_error":          model.Auth,
	"billing_error":             model.Auth,
	"invalid_api_key":           model.Auth,
	"insufficient_quota":        model.Auth, // comes as 429, but no waiting helps
	"rate_limit_error":          model.RateLimited,
	"rate_limit_exceeded":       model.RateLimited,
	"overloaded_error":          model.Overloaded,
	"api_error":                 model.Overloaded,
	"server_error":              model.Overloaded,
	"timeout_error":             model.Timeout,
	"request_too_large":         model.TooLong,
	"context_length_exceeded":   model.TooLong,
	"exceed_context_size_error": model.TooLong,
}

// tooLongPhrases are the messages by which servers without a code for it report a full context, in lower case.
var tooLongPhrases = []string{
	"prompt is too long",
	"maximum context length",
	"context length",
	"context limit",
	"context window",
	"context size",
	"input is too long",
	"too many tokens",
}

func (f failure) classify(status int) model.Kind {
	for _, name := range []string{f.code, f.kind} {
		if kind, ok := kindByName[name]; ok && possible(kind, status) {
			return kind
		}
	}
	if status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status == http.StatusOK {
		lower := strings.ToLower(f.message)
		for _, phrase := range tooLongPhrases {
			if strings.Contains(lower, phrase) {
				return model.TooLong
			}
		}
	}
	return kindByStatus(status)
}

// possible reports whether a failure with a status can be of a kind: the status decides between the request (4xx) and the server.
func possible(kind model.Kind, status int) bool {
	switch {
	case status == http.StatusOK: // inside a stream
		return true
	case kind == model.RateLimited: // some say it with another status than 429
		return status != http.StatusBadRequest && status != http.StatusUnprocessableEntity && status != http.StatusUnauthorized && status != http.StatusNotFound
	case kind == model.Overloaded, kind == model.Timeout:
		return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict
	}
	return status < 500 // what is wrong with the request, the key or the account
}

func kindByStatus(status int) model.Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return model.Auth
	case status == http.StatusTooManyRequests:
		return model.RateLimited
	case status == http.StatusRequestEntityTooLarge:
		return model.TooLong
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return model.Timeout
	case status == http.StatusConflict, status >= 500:
		return model.Overloaded
	case status == http.StatusOK:
		// An error inside a stream that had begun well, of a type we do not know.
		return model.Overloaded
	}
	return model.BadRequest
}

// nextStep suggests what a person can try, if anything.
func nextStep(kind model.Kind, status int) string {
	switch {
	case kind == model.Auth:
		return "; check api_key_env or api_key_file of this tier, and the account's credit"
	case status == http.StatusNotFound:
		return "; check model and base_url of this tier"
	case status >= 300 && status < 400:
		return "; the server redirects, set base_url to the address it redirects to"
	}
	return ""
}

func (e *Edge) classed(status int, f failure) *model.Error {
	kind := f.classify(status)
	what := e.tidy(f.message)
	if what == "" {
		what = http.StatusText(status)
	}
	if status != http.StatusOK {
		what = fmt.Sprintf("status %d: %s", status, what)
	}
	return e.fail(kind, status, what+nextStep(kind, status))
}

// InStream classes an error event inside a stream.
func (e *Edge) InStream(data []byte) *model.Error {
	return e.classed(http.StatusOK, parseFailure(data))
}

func (e *Edge) fail(kind model.Kind, status int, what string) *model.Error {
	return &model.Error{Kind: kind, Provider: e.provider, Status: status, Err: errors.New(what)}
}

// Cut is the error for a stream without its end marker.
func (e *Edge) Cut(name string) *model.Error {
	err := e.fail(model.Cut, 0, "the stream ended before the answer did")
	err.Model = name
	return err
}

// Open classes an error before the stream.
func (e *Edge) Open(ctx context.Context, name string, err error) error {
	return e.failed(ctx, name, err, model.Unreachable)
}

// Broken classes an error in the middle of a stream.
func (e *Edge) Broken(ctx context.Context, name string, err error) error {
	return e.failed(ctx, name, err, model.Cut)
}

func (e *Edge) failed(ctx context.Context, name string, err error, otherwise model.Kind) error {
	if ctxErr := ctx.Err(); errors.Is(ctxErr, context.Canceled) {
		return fmt.Errorf("call %s model %q: %w", e.provider, name, context.Cause(ctx))
	}
	var known *model.Error
	switch {
	case errors.As(err, &known):
	case ctx.Err() != nil:
		known = &model.Error{Kind: model.Timeout, Provider: e.provider, Err: ctx.Err()}
	case lacks(err):
		known = e.fail(model.Lacking, 0, e.tidy(err.Error()))
	case isNonsense(err):
		known = e.fail(model.BadAnswer, 0, "read the stream: "+e.tidy(err.Error()))
	default:
		known = e.fail(otherwise, 0, e.tidy(err.Error()))
	}
	known.Model = name
	return known
}

// lacks reports whether this machine ran out of a resource, such as descriptors. The resolver keeps only the text of such an error.
func lacks(err error) bool {
	var resolver *net.DNSError
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, lack) || errors.As(err, &resolver) && strings.HasSuffix(resolver.Err, lack.Error()) {
			return true
		}
	}
	return false
}

// isNonsense reports whether the server sent bytes that are not valid, as opposed to none.
func isNonsense(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.Is(err, errTooBig) || errors.Is(err, bufio.ErrTooLong) || errors.As(err, &syntax) || errors.As(err, &kind)
}

// tidy makes foreign text fit for one line of a log: short, without control characters, and without the
// key, which some servers echo.
func (e *Edge) tidy(s string) string {
	if key := e.secret.Reveal(); key != "" {
		s = strings.ReplaceAll(s, key, e.secret.String())
	}
	s = strings.Map(spaceForControl, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	const limit = 400
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "..."
	}
	return s
}

func spaceForControl(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
