package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// client makes requests of the REST API. It sends every request once: only the caller knows which may be repeated.
type client struct {
	base, token string
	http        *http.Client

	until cache.Map[string, time.Time] // by route: nothing more before this

	mu  sync.Mutex
	all time.Time // the same for all routes
}

const (
	maxAnswer   = 8 << 20 // bytes of an answer
	maxRoutes   = 1000    // with a limit that is remembered
	restTimeout = 30 * time.Second
	// shortWait is how long a request waits for a known limit before it is sent; a longer limit is an error.
	shortWait = 2 * time.Second
)

func newClient(s settings) *client {
	return &client{
		base: s.API, token: s.token, until: cache.Map[string, time.Time]{Most: maxRoutes},
		http: webapi.NewClient(),
	}
}

// limitedError means that nothing was done, and that Discord takes the request only after a while.
type limitedError struct{ after time.Duration }

func (e *limitedError) Error() string { return fmt.Sprintf("discord asks to wait %v", e.after) }

// refusedError is an answer other than 2xx.
type refusedError struct {
	status, code int
	message      string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("discord answers %d: %s (code %d)", e.status, e.message, e.code)
}

// call sends a request with JSON, or none when in is nil, and reads the answer into out unless that is nil.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	if in == nil {
		return c.do(ctx, method, path, "", nil, out)
	}
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.do(ctx, method, path, "application/json", data, out)
}

// patient is call for requests that may be late: it waits until every limit has passed.
func (c *client) patient(ctx context.Context, method, path string, in, out any) error {
	for {
		err := c.call(ctx, method, path, in, out)
		limited, ok := errors.AsType[*limitedError](err)
		if !ok {
			return err
		}
		if err := backoff.Sleep(ctx, limited.after); err != nil {
			return err
		}
	}
}

func (c *client) do(ctx context.Context, method, path, kind string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	key := route(method, path)
	if err := c.admit(ctx, key); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", webapi.WithoutAddress(err))
	}
	r.Header.Set("Authorization", "Bot "+c.token)
	r.Header.Set("User-Agent", "DiscordBot (https://github.com/flynnhost/flynn, 1)")
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	answer, data, err := webapi.Call(c.http, r, maxAnswer)
	if answer != nil {
		c.note(key, answer.Header)
	}
	switch {
	case err != nil:
		return fmt.Errorf("no answer from discord: %w", err)
	case answer.StatusCode == http.StatusTooManyRequests:
		return c.limited(key, answer.Header, data)
	case answer.StatusCode/100 != 2:
		return refused(answer.StatusCode, data)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the answer of discord: %w", err)
	}
	return nil
}

// route returns the key by which requests share a limit: the method and the path, without the ids behind the first.
func route(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if i > 2 && (isSnowflake(p) || i > 0 && parts[i-1] == "reactions") {
			parts[i] = "*"
		}
	}
	return method + strings.Join(parts, "/")
}

// admit waits for a limit that is nearly over, and returns a limitedError for a longer one.
func (c *client) admit(ctx context.Context, key string) error {
	until, _ := c.until.Get(key)
	c.mu.Lock()
	if c.all.After(until) {
		until = c.all
	}
	c.mu.Unlock()
	wait := time.Until(until)
	if wait <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); wait > shortWait || ok && time.Until(deadline) < wait {
		return &limitedError{wait}
	}
	return backoff.Sleep(ctx, wait)
}

// note records that a bucket is empty.
func (c *client) note(key string, h http.Header) {
	after, ok := seconds(h.Get("X-RateLimit-Reset-After"))
	if h.Get("X-RateLimit-Remaining") == "0" && ok {
		c.until.Set(key, time.Now().Add(after), after)
	}
}

// limited reads how long to wait. The body is exact; the header is in whole seconds, and all there is when the limit is not Discord's
// own but of the network before it.
func (c *client) limited(key string, h http.Header, data []byte) error {
	var body struct {
		RetryAfter float64 `json:"retry_after"`
		Global     bool    `json:"global"`
	}
	after, ok := seconds(h.Get("Retry-After"))
	if json.Unmarshal(data, &body) == nil && body.RetryAfter > 0 {
		after, ok = seconds(strconv.FormatFloat(body.RetryAfter, 'f', -1, 64))
	}
	if !ok {
		after = 5 * time.Second
	}
	c.until.Set(key, time.Now().Add(after), after)
	if body.Global || h.Get("X-RateLimit-Global") == "true" {
		c.mu.Lock()
		c.all = time.Now().Add(after)
		c.mu.Unlock()
	}
	return &limitedError{after}
}

// seconds reads a number of seconds, at most a day of them.
func seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 86400 {
		return 0, false
	}
	return time.Duration(math.Ceil(f*1000)) * time.Millisecond, true
}

func refused(status int, data []byte) error {
	e := &refusedError{status: status, message: http.StatusText(status)}
	var body struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &body) == nil && body.Message != "" {
		e.code, e.message = body.Code, body.Message[:min(len(body.Message), 200)]
	}
	return e
}
