package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/message"
)

// fakeHost settles every question at once.
type fakeHost struct {
	end    api.Settlement
	ignore []string
	asked  message.Message
}

func (h *fakeHost) Submit(_ context.Context, m message.Message) error { h.asked = m; return nil }

func (h *fakeHost) Watch(string, string) ([]message.Event, <-chan message.Event, func()) {
	return nil, nil, func() {}
}

func (h *fakeHost) HangUp(string, string) {}

func (h *fakeHost) Settled(context.Context, string, string) (api.Settlement, error) {
	s := h.end
	s.Message, s.Done = h.asked, true
	return s, nil
}

func (h *fakeHost) Agents(string) []api.Agent { return []api.Agent{{Name: "main"}, {Name: "coder"}} }

func (h *fakeHost) Ignores(client string) ([]string, string) {
	return h.ignore, "[clients." + client + "]"
}

func (h *fakeHost) MaxFiles() int { return 1 }

func (h *fakeHost) Keep(context.Context, message.SenderKey, api.File) (message.Attachment, error) {
	return message.Attachment{}, nil
}

func TestHandler(t *testing.T) {
	const (
		question = `{"model":"main","messages":[{"role":"user","content":"hello"}]}`
		tools    = `{"model":"main","tools":[{"type":"function"}],"tool_choice":"auto","messages":[{"role":"user","content":"hello"}]}`
		format   = `{"model":"main","response_format":{"type":"json_object"},"messages":[{"role":"user","content":"hello"}]}`
	)
	limited := api.Settlement{Failed: true, Text: "the model is too busy", Limited: true, RetryAfter: 12300 * time.Millisecond}
	stream := strings.Replace(question, "{", `{"stream":true,`, 1)
	for _, tt := range []struct {
		name, request, body string
		host                fakeHost
		status              int
		says                string
		retry               string
	}{
		{name: "an agent as a model", request: "GET /v1/models/coder", status: 200, says: `"id":"coder"`},
		{name: "a model that is no agent", request: "GET /v1/models/gpt-4", status: 404, says: "model_not_found"},
		{name: "a model is not deleted", request: "DELETE /v1/models/coder", status: 405, says: "method_not_allowed"},
		{name: "the responses API", request: "POST /v1/responses", body: question, status: 404, says: "the Responses API is not offered: set the client to chat completions"},
		{name: "one response", request: "GET /v1/responses/r1", status: 404, says: "the Responses API is not offered"},
		{name: "embeddings", request: "POST /v1/embeddings", status: 404, says: "OpenAI's embeddings are not offered"},
		{name: "nothing of OpenAI's", request: "GET /v1/x", status: 404, says: "the paths are"},
		{name: "a question", request: "POST /v1/chat/completions", body: question, host: fakeHost{end: api.Settlement{Text: "hi"}}, status: 200, says: `"content":"hi"`},
		{name: "tools", request: "POST /v1/chat/completions", body: tools, status: 400, says: `ignore = [\"tools\"] in [clients.editor]`},
		{name: "tools to be ignored", request: "POST /v1/chat/completions", body: tools, host: fakeHost{ignore: []string{"tools"}}, status: 200, says: "assistant"},
		{name: "tools, something else to be ignored", request: "POST /v1/chat/completions", body: tools, host: fakeHost{ignore: []string{"response_format"}}, status: 400, says: "leave tools out"},
		{name: "a format", request: "POST /v1/chat/completions", body: format, status: 400, says: `ignore = [\"response_format\"] in [clients.editor]`},
		{name: "a format to be ignored", request: "POST /v1/chat/completions", body: format, host: fakeHost{ignore: []string{"tools", "response_format"}}, status: 200, says: "assistant"},
		{name: "a model's rate limit", request: "POST /v1/chat/completions", body: question, host: fakeHost{end: limited}, status: 429, says: "rate_limit_error", retry: "13"},
		{name: "a model's rate limit, streaming", request: "POST /v1/chat/completions", body: stream, host: fakeHost{end: limited}, status: 429, says: "rate_limit_exceeded", retry: "13"},
		{name: "another failure", request: "POST /v1/chat/completions", body: question, host: fakeHost{end: api.Settlement{Failed: true, Text: "no"}}, status: 500, says: "turn_failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, strings.NewReader(tt.body))
			New(api.New(&tt.host, func() string { return "id" })).ServeClient(w, r, "editor")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || w.Header().Get("Retry-After") != tt.retry {
				t.Errorf("answered %d, Retry-After %q, %s; want %d, %q and %q", w.Code, w.Header().Get("Retry-After"), w.Body, tt.status, tt.retry, tt.says)
			}
			var failure struct{ Error apiError }
			if w.Code != http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &failure) != nil || failure.Error.Message == "") {
				t.Errorf("this is no error of OpenAI's form: %s", w.Body)
			}
		})
	}
}
