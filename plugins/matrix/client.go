package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

// client speaks the client-server API, version 1.11 (spec.matrix.org).
type client struct {
	base  string
	token string
	http  *http.Client
}

// maxAnswer bounds what the homeserver answers, in bytes; a sync after a long absence is the largest.
const maxAnswer = 16 << 20

// callTimeout bounds a call that is no long poll.
const callTimeout = 30 * time.Second

// apiError is an error that the homeserver tells, or an answer that is none.
type apiError struct {
	Status     int           `json:"-"`
	Code       string        `json:"errcode"`
	Text       string        `json:"error"`
	RetryAfter time.Duration `json:"-"`
	Millis     int64         `json:"retry_after_ms"`
}

func (e *apiError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the homeserver answers with status %d", e.Status)
	}
	return fmt.Sprintf("%s: %.200s", e.Code, e.Text)
}

// lostError is a call of which nobody knows whether it arrived.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// call makes one request with a JSON body and decodes the answer into out; both may be nil.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.long(ctx, method, path, query, body, out)
}

// long is call without a deadline of its own.
func (c *client) long(ctx context.Context, method, path string, query url.Values, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	answer, err := c.do(ctx, method, path, query, "application/json", content)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return &lostError{err}
	}
	if len(text) > maxAnswer {
		return fmt.Errorf("the homeserver's answer has more than %d bytes", maxAnswer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the homeserver's answer: %w", err)
	}
	return nil
}

// do makes one request. An answer that is not a success comes back as an error.
func (c *client) do(ctx context.Context, method, path string, query url.Values, contentType string, body io.Reader) (*http.Response, error) {
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, errors.New("the address of the request is malformed")
	}
	r.URL.RawQuery = query.Encode()
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // without the address
		}
		if written.Load() {
			err = &lostError{err}
		}
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, readError(answer)
}

func readError(r *http.Response) *apiError {
	e := &apiError{Status: r.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	_ = json.Unmarshal(text, e) // a proxy's page has none of it
	if e.Millis > 0 && e.Millis < 1<<40 {
		e.RetryAfter = time.Duration(e.Millis) * time.Millisecond
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<30 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// wait is how long the homeserver asks to wait, or 0.
func wait(err error) time.Duration {
	if e := (*apiError)(nil); errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// refusals are the codes by which a homeserver turns down a request for good: the same one will never be taken. A page of a proxy has no code,
// and M_UNRECOGNIZED comes from servers that are not, or not yet, the homeserver.
var refusals = map[string]bool{
	"M_FORBIDDEN": true, "M_TOO_LARGE": true, "M_NOT_FOUND": true, "M_BAD_JSON": true, "M_NOT_JSON": true, "M_INVALID_PARAM": true,
	"M_MISSING_PARAM": true, "M_BAD_STATE": true, "M_GUEST_ACCESS_FORBIDDEN": true, "M_UNSUPPORTED_ROOM_VERSION": true,
	"M_INCOMPATIBLE_ROOM_VERSION": true, "M_CANNOT_OVERWRITE_MEDIA": true, "M_USER_DEACTIVATED": true,
}

// refused reports whether the homeserver says no for good.
func refused(err error) bool {
	e := (*apiError)(nil)
	return errors.As(err, &e) && e.Status/100 == 4 && refusals[e.Code]
}

// final says by its code when the same call can never succeed.
func final(err error) error {
	e := (*apiError)(nil)
	switch {
	case err == nil || !refused(err):
		return err
	case errors.As(err, &e) && e.Code == "M_NOT_FOUND":
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// outcome is what became of a send that failed so.
func outcome(err error) channel.Outcome {
	if refused(err) {
		return channel.OutcomeRefused
	}
	if e := (*apiError)(nil); errors.As(err, &e) {
		if e.Status/100 == 5 && e.Status != http.StatusServiceUnavailable {
			return channel.OutcomeUnknown
		}
		return channel.OutcomeNotSent
	}
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		return channel.OutcomeUnknown
	}
	return channel.OutcomeNotSent
}

// loggedOut tells that the token is of no use any more.
func loggedOut(err error) bool {
	e := (*apiError)(nil)
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Code == "M_UNKNOWN_TOKEN" || e.Code == "M_MISSING_TOKEN")
}

const v3 = "/_matrix/client/v3"

// room is the path of a room's resource.
func room(id string, parts ...string) string {
	p := v3 + "/rooms/" + url.PathEscape(id)
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}
