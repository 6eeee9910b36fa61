package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// client speaks the client-server API, version 1.11 (spec.matrix.org).
type client struct {
	base  string
	token string
	http  *http.Client
}

// maxAnswer bounds a response of the homeserver, in bytes; a sync after a long absence is the largest.
const maxAnswer = 16 << 20

// callTimeout bounds a call that is no long poll.
const callTimeout = 30 * time.Second

// apiError is an error that the homeserver answers, or an answer that is not JSON.
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

// call makes one request with a JSON body and decodes the answer into out; both may be nil.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.long(ctx, method, path, query, body, out)
}

// long is call without its own deadline.
func (c *client) long(ctx context.Context, method, path string, query url.Values, body, out any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	return c.do(ctx, method, path, query, "application/json", content, out)
}

// do is long with a body of any type.
func (c *client) do(ctx context.Context, method, path string, query url.Values, contentType string, body io.Reader, out any) error {
	r, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", contentType)
	}
	answer, text, err := webapi.Call(c.http, r, maxAnswer)
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 != 2:
		return readError(answer, text)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the homeserver's answer: %w", err)
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, errors.New("the address of the request is malformed")
	}
	r.URL.RawQuery = query.Encode()
	r.Header.Set("Authorization", "Bearer "+c.token)
	return r, nil
}

func readError(r *http.Response, text []byte) *apiError {
	e := &apiError{Status: r.StatusCode}
	_ = json.Unmarshal(text, e) // a proxy's error page has none of these fields
	if e.Millis > 0 && e.Millis < 1<<40 {
		e.RetryAfter = time.Duration(e.Millis) * time.Millisecond
	}
	if after := webapi.RetryAfter(r.Header); after > 0 {
		e.RetryAfter = after
	}
	return e
}

// wait returns how long the homeserver asks to wait, or 0.
func wait(err error) time.Duration {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// says reports whether the homeserver returned an error code.
func says(err error, code string) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Code == code
}

// refusals are the codes with which a homeserver turns down a request for good. A page of a proxy has no code, and M_UNRECOGNIZED comes from
// servers that are not, or not yet, the homeserver.
var refusals = map[string]bool{
	"M_FORBIDDEN": true, "M_TOO_LARGE": true, "M_NOT_FOUND": true, "M_BAD_JSON": true, "M_NOT_JSON": true, "M_INVALID_PARAM": true,
	"M_MISSING_PARAM": true, "M_BAD_STATE": true, "M_GUEST_ACCESS_FORBIDDEN": true, "M_UNSUPPORTED_ROOM_VERSION": true,
	"M_INCOMPATIBLE_ROOM_VERSION": true, "M_CANNOT_OVERWRITE_MEDIA": true, "M_USER_DEACTIVATED": true,
}

// refused reports whether the homeserver turns a request down for good.
func refused(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Status/100 == 4 && refusals[e.Code]
}

// final gives an error a status code when the same call can never succeed.
func final(err error) error {
	switch {
	case !refused(err):
		return err
	case says(err, "M_NOT_FOUND"):
		return status.Error(codes.NotFound, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// outcome returns the outcome of a send that failed with err.
func outcome(err error) channel.Outcome {
	e, answered := errors.AsType[*apiError](err)
	lost, broken := errors.AsType[*webapi.Error](err)
	switch {
	case refused(err):
		return channel.OutcomeRefused
	case answered && e.Status/100 == 5 && e.Status != http.StatusServiceUnavailable, broken && lost.Sent:
		return channel.OutcomeUnknown
	}
	return channel.OutcomeNotSent
}

// loggedOut reports whether the homeserver does not accept the token.
func loggedOut(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && (e.Status == http.StatusUnauthorized || e.Code == "M_UNKNOWN_TOKEN" || e.Code == "M_MISSING_TOKEN")
}

const v3 = "/_matrix/client/v3"

// room returns the path of a room's resource.
func room(id string, parts ...string) string {
	p := v3 + "/rooms/" + url.PathEscape(id)
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}
