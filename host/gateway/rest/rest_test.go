package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/route"
)

func TestProblems(t *testing.T) {
	api := rest.New(gatewaytest.New(nil).Subjects(), "v1.2.3", nil)
	began := time.Now()
	doc, err := api.OpenAPI()
	if err != nil || !json.Valid(doc) {
		t.Fatalf("%v: %s", err, doc)
	}
	t.Log(time.Since(began), len(doc))
	ask := func(role, method, path, body string) (int, gateway.Problem) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, rest.Prefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if role != "" {
			r = r.WithContext(gateway.WithCaller(context.Background(), gateway.Caller{Sender: "web:owner", Role: role}))
		}
		api.ServeHTTP(w, r)
		var p gateway.Problem
		if w.Code >= 400 {
			if kind := w.Header().Get("Content-Type"); kind != gateway.ProblemType {
				t.Errorf("%s %s: an error is %s", method, path, kind)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Title == "" || p.Detail == "" || p.Code == "" {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		return w.Code, p
	}
	for _, c := range []struct {
		role, method, path, body string
		status                   int
		says                     string
	}{
		{route.Owner, http.MethodGet, "/status", "", 200, ""},
		{route.Owner, http.MethodPut, "/halt", `{"reason":"fire"}`, 204, ""},
		{route.Member, http.MethodGet, "/status", "", 403, "this is for owners; you are a member"},
		{"", http.MethodGet, "/status", "", 403, "you are nobody here"},
		{route.Owner, http.MethodGet, "/nothing", "", 404, "there is no such path"},
		{route.Owner, http.MethodPost, "/status", "", 405, "this path has GET and not POST"},
		{route.Owner, http.MethodGet, "/status?verbose=1", "", 422, "verbose"},
		{route.Owner, http.MethodPut, "/halt", `{"reason":1}`, 422, "body.reason"},
		{route.Owner, http.MethodPut, "/halt", `{"reason":"a","reason":"b"}`, 400, "there twice"},
		{route.Owner, http.MethodPut, "/halt", `{"reason":"a"} {}`, 400, ""},
		{route.Owner, http.MethodPut, "/halt", `{"why":"a"}`, 422, "body.why"},
		{route.Owner, http.MethodPut, "/halt", `{"reason":"` + strings.Repeat("x", 600) + `"}`, 422, "500"},
		{route.Owner, http.MethodPut, "/halt", strings.Repeat(" ", gateway.MaxBody+1), 413, ""},
	} {
		if code, p := ask(c.role, c.method, c.path, c.body); code != c.status || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s %s %.60s: %d %q, want %d %q", c.method, c.path, c.body, code, p.Detail, c.status, c.says)
		}
	}
}
