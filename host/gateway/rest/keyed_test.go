package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// counted counts halts, and waits in them.
type counted struct {
	n     atomic.Int64
	enter chan struct{} // gets one as a call begins; nil: none
	leave chan struct{} // ends the calls
}

func (c *counted) Halt(ctx context.Context, _ bool, reason, _ string) error {
	c.n.Add(1)
	if c.enter != nil {
		c.enter <- struct{}{}
		<-c.leave
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case reason == "broken":
		return http.ErrBodyNotAllowed // any error that is no known one
	case reason == "bad":
		return gateway.BadRequest("no")
	}
	return nil
}

type asked struct {
	api http.Handler
	ctx context.Context
}

func (a asked) put(by message.SenderKey, key, body string) (int, string, http.Header) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, rest.Prefix+"/halt", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set(rest.KeyHeader, key)
	}
	ctx := a.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	a.api.ServeHTTP(w, r.WithContext(gateway.WithCaller(ctx, gateway.Caller{Sender: by, Role: route.Owner})))
	var p gateway.Problem
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	return w.Code, p.Detail, w.Header()
}

func keyedAPI(t *testing.T, s *sqlite.Store, h gateway.Halter) asked {
	t.Helper()
	b := gatewaytest.New(nil).Subjects()
	b.Halter, b.Keys = h, s
	return asked{api: rest.New(b, "", nil)}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	h := &counted{}
	a := keyedAPI(t, s, h)
	for _, c := range []struct {
		by           message.SenderKey
		key, body    string
		status, runs int
		says         string
	}{
		{"web:owner", "k1", `{"reason":"fire"}`, 204, 1, ""},
		{"web:owner", "k1", `{"reason":"fire"}`, 204, 1, ""},
		{"web:owner", "k1", `{"reason":"water"}`, 422, 1, "another request"},
		{"web:other", "k1", `{"reason":"water"}`, 204, 2, ""},
		{"web:owner", "k2", `{"reason":"bad"}`, 400, 3, "no"},
		{"web:owner", "k2", `{"reason":"bad"}`, 400, 3, "no"},
		{"web:owner", "k3", `{"reason":"broken"}`, 503, 4, ""},
		{"web:owner", "k3", `{"reason":"broken"}`, 409, 4, "outcome is unknown"},
		{"web:owner", "", `{"reason":"fire"}`, 204, 5, ""},
		{"web:owner", "", `{"reason":"fire"}`, 204, 6, ""},
		{"web:owner", strings.Repeat("k", 129), `{}`, 400, 6, "visible ASCII"},
		{"web:owner", "a b", `{}`, 400, 6, "visible ASCII"},
		{"web:owner", "\u202e'; --", `{}`, 400, 6, "visible ASCII"},
		{"web:owner", "k4", strings.Repeat(" ", gateway.MaxBody+1), 413, 6, ""},
		{"web:owner", "k4", `{"reason":1}`, 422, 6, "another request"},
		{"web:owner", "k5", `{"reason":1}`, 422, 6, "body.reason"},
	} {
		status, says, _ := a.put(c.by, c.key, c.body)
		if status != c.status || int(h.n.Load()) != c.runs || !strings.Contains(says, c.says) {
			t.Errorf("%s %.20q %.30s: %d %q after %d runs, want %d %q after %d", c.by, c.key, c.body, status, says, h.n.Load(), c.status, c.says, c.runs)
		}
	}
	if _, _, header := a.put("web:owner", "k1", `{"reason":"fire"}`); header.Get("Idempotency-Replayed") != "true" {
		t.Error("a repetition does not say that it is one")
	}

	// A restart forgets no answer.
	_ = s.Close()
	if s, err = sqlite.Open(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	a = keyedAPI(t, s, h)
	if status, _, _ := a.put("web:owner", "k1", `{"reason":"fire"}`); status != 204 || h.n.Load() != 6 {
		t.Errorf("after a restart: %d, %d runs", status, h.n.Load())
	}
}

func TestKeysAtOnce(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	h := &counted{enter: make(chan struct{}), leave: make(chan struct{})}
	a := keyedAPI(t, s, h)
	gone, leave := context.WithCancel(context.Background())
	a.ctx = gone
	first := make(chan int)
	go func() { status, _, _ := a.put("web:owner", "k", `{}`); first <- status }()
	<-h.enter
	leave() // the client goes; what it asked for continues
	if status, says, _ := (asked{api: a.api}).put("web:owner", "k", `{}`); status != 409 || !strings.Contains(says, "still running") {
		t.Errorf("at once: %d %q", status, says)
	}
	// A process that did not end the request knows nothing of its outcome.
	if status, says, _ := keyedAPI(t, s, h).put("web:owner", "k", `{}`); status != 409 || !strings.Contains(says, "outcome is unknown") {
		t.Errorf("after a crash: %d %q", status, says)
	}
	close(h.leave)
	if status := <-first; status != 204 {
		t.Errorf("the first: %d", status)
	}
	if status, _, _ := (asked{api: a.api}).put("web:owner", "k", `{}`); status != 204 || h.n.Load() != 1 {
		t.Errorf("afterwards: %d, %d runs", status, h.n.Load())
	}
}
