package anthropic

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
)

// server is a transport that answers every request with the same body.
type server struct {
	body     string
	oneByte  bool
	sent     []byte // the last request's body
	sentPath string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sentPath = r.URL.String()
	s.sent, _ = io.ReadAll(r.Body)
	var body io.Reader = strings.NewReader(s.body)
	if s.oneByte {
		body = iotest.OneByteReader(body)
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(body),
		Header: http.Header{"Content-Type": {"text/event-stream"}}}, nil
}

func ask(t testing.TB, s *server, req model.Request) (model.Response, string, error) {
	p, err := newProvider(config.Model{APIKey: "sk-secret"}, s)
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	resp, err := p.Stream(t.Context(), req, func(d model.Delta) { seen.WriteString(d.Text) })
	return resp, seen.String(), err
}

var request = model.Request{Model: "m", MaxTokens: 77, Messages: []model.Message{{Role: model.User, Text: "hi"}}}

func events(list ...string) string {
	var b strings.Builder
	for _, data := range list {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(data), &kind)
		b.WriteString("event: " + kind.Type + "\ndata: " + data + "\n\n")
	}
	return b.String()
}

// TestHabits holds what compatible servers and newer models send besides the plain format.
func TestHabits(t *testing.T) {
	const (
		text = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
		end  = `{"type":"message_stop"}`
	)
	for name, test := range map[string]struct {
		body  string
		want  model.Message
		usage model.Usage
	}{
		"thinking beside the text": {
			events(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hmm"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}`, text, end),
			model.Message{Text: "hi", Thinking: []model.Thinking{{Model: "m", Text: "hmm", Signature: "abc"}}}, model.Usage{Input: 1, Output: 1, Estimated: true},
		},
		"thinking without a signature": {
			events(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hmm"}}`, text, end),
			model.Message{Text: "hi"}, model.Usage{Input: 1, Output: 1, Estimated: true},
		},
		"events and blocks of the future": {
			events(`{"type":"weather","sun":true}`, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram"}}`, text, end),
			model.Message{Text: "hi"}, model.Usage{Input: 1, Output: 1, Estimated: true},
		},
		"text in the start of its block": {
			events(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"oh, "}}`, text, end),
			model.Message{Text: "oh, hi"}, model.Usage{Input: 1, Output: 2, Estimated: true},
		},
		"input whole in the start of its block": {
			events(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"a","input":{"x": 1}}}`, end),
			model.Message{Calls: []model.ToolCall{{ID: "c", Name: "a", Args: json.RawMessage(`{"x": 1}`)}}}, model.Usage{Input: 1, Output: 3, Estimated: true},
		},
		"figures only at the start": {
			events(`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}`, text,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`, end),
			model.Message{Text: "hi"}, model.Usage{Input: 9, Output: 4},
		},
		"noise behind the end": {
			events(text, end) + "event: error\ndata: {}\n\n",
			model.Message{Text: "hi"}, model.Usage{Input: 1, Output: 1, Estimated: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, seen, err := ask(t, &server{body: test.body}, request)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Role = model.Assistant
			if diff := cmp.Diff(test.want, resp.Message); diff != "" || seen != test.want.Text || resp.Usage != test.usage {
				t.Errorf("usage %+v, emitted %q, message (-want +got):\n%s", resp.Usage, seen, diff)
			}
		})
	}
}

// TestCacheMarks wants tools, system prompt and the last two ends of the transcript marked, and nothing else: the API takes four.
func TestCacheMarks(t *testing.T) {
	req := request
	req.System = "be brief"
	req.Tools = []model.Tool{{Name: "a.b", Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}}
	req.Messages = append(req.Messages,
		model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c", Name: "a.b", Args: json.RawMessage(`{"x":1}`)}}},
		model.Message{Role: model.User, Results: []model.ToolResult{{ID: "c", Text: "done"}}})
	s := &server{}
	_, _, _ = ask(t, s, req)
	want := `{
		"model": "m", "max_tokens": 77, "stream": true,
		"system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
		"tools": [{"name": "a__b", "cache_control": {"type": "ephemeral"}, "input_schema": {"type": "object", "properties": {}, "additionalProperties": false}}],
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
			{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "a__b", "input": {"x": 1}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": false,
				"content": [{"type": "text", "text": "done"}], "cache_control": {"type": "ephemeral"}}]}
		]}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, string(s.sent))); diff != "" || s.sentPath != "https://api.anthropic.com/v1/messages" {
		t.Errorf("to %s (-want +got):\n%s", s.sentPath, diff)
	}
}

func decoded(t *testing.T, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

// FuzzStream feeds bytes of a hostile server through the provider.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		events(`{"type":"message_start","message":{"usage":{"input_tokens":-9}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`, `{"type":"message_stop"}`),
		events(`{"type":"content_block_start","index":7,"content_block":{"type":"tool_use","name":"a","input":[1]}}`, `{"type":"content_block_delta","index":8,"delta":{"type":"input_json_delta","partial_json":"{"}}`, `{"type":"message_stop"}`),
		events(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "event: error\ndata: nonsense\n\n", "event: error\n\n",
		"event: ping\ndata: {}\n\n", "data: {}\n\n", "event: x\ndata: [\n\n", ": comment\r\n\r\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"event: x\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"\xf0\x9f\"}}\n\n", "",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, oneByte bool) {
		resp, seen, err := ask(t, &server{body: string(body), oneByte: oneByte}, request)
		if err != nil {
			if _, ok := err.(*model.Error); !ok || !utf8.ValidString(err.Error()) || len(err.Error()) > 8<<10 {
				t.Errorf("error is %T: %q", err, err)
			}
			return
		}
		if seen != resp.Message.Text || !utf8.ValidString(seen) || len(seen) > 3*len(body) {
			t.Errorf("emitted %q, answered %q", seen, resp.Message.Text)
		}
		if u := resp.Usage; u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 {
			t.Errorf("usage is %+v", u)
		}
		if _, err := json.Marshal(resp); err != nil {
			t.Errorf("the answer cannot be stored: %v", err)
		}
	})
}
