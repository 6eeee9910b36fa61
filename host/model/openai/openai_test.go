package openai

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

func ask(t testing.TB, s *server, cfg config.Model, req model.Request) (model.Response, string, error) {
	p, err := newProvider(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	resp, err := p.Stream(t.Context(), req, func(d model.Delta) { seen.WriteString(d.Text) })
	return resp, seen.String(), err
}

var request = model.Request{Model: "m", MaxTokens: 77, Session: "irc:#room:main", Messages: []model.Message{{Role: model.User, Text: "hi"}}}

// TestHabits holds what compatible servers send instead of what the book says.
func TestHabits(t *testing.T) {
	call := func(name, args string) model.ToolCall { return model.ToolCall{Name: name, Args: json.RawMessage(args)} }
	const stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for name, test := range map[string]struct {
		chunks []string
		text   string
		calls  []model.ToolCall
		stop   model.Stop
	}{
		"finish_reason with the last text": {
			[]string{`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`}, "hi", nil, model.StopEnd,
		},
		"content is null": {
			[]string{`{"choices":[{"delta":{"role":"assistant","content":null}}]}`, `{"choices":[{"delta":{"content":"hi"}}]}`, stop}, "hi", nil, model.StopEnd,
		},
		"reasoning beside the content": {
			[]string{`{"choices":[{"delta":{"reasoning_content":"hmm"}}]}`, `{"choices":[{"delta":{"content":"hi"}}]}`, stop}, "hi", nil, model.StopEnd,
		},
		"other choices": {
			[]string{`{"choices":[{"index":1,"delta":{"content":"not this"}},{"index":0,"delta":{"content":"hi"}}]}`, stop}, "hi", nil, model.StopEnd,
		},
		"whole call at once, no id, stop says stop": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{\"x\":1}"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{"x":1}`)}, model.StopToolCalls,
		},
		"arguments as an object": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":{"x": [1]}}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{"x": [1]}`)}, model.StopToolCalls,
		},
		"all calls have index 0, with ids": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"a","arguments":"{}"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{}`), call("a", `{}`)}, model.StopToolCalls,
		},
		"all calls have index 0, without ids": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{}"}},{"index":0,"function":{"name":"b","arguments":"{}"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{}`), call("b", `{}`)}, model.StopToolCalls,
		},
		"id and name repeated with every piece": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"x\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":":1}"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{"x":1}`)}, model.StopToolCalls,
		},
		"the same id for all": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"a"}},{"index":1,"id":"c","function":{"name":"b"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{}`), call("b", `{}`)}, model.StopToolCalls,
		},
		"pieces of two calls interleaved": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a"}},{"index":1,"id":"2","function":{"name":"b"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\""}},{"index":0,"function":{"arguments":"{\"a\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}]}}]}`, stop},
			"", []model.ToolCall{call("a", `{"a":1}`), call("b", `{"b":2}`)}, model.StopToolCalls,
		},
		"cut by length within a call": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"a\""}}]}}]}`, `{"choices":[{"delta":{},"finish_reason":"length"}]}`},
			"", []model.ToolCall{call("a", `{"a"`)}, model.StopLength,
		},
		"no finish_reason, but [DONE]": {
			[]string{`{"choices":[{"delta":{"content":"hi"}}]}`, `[DONE]`, `{"choices":[{"delta":{"content":"and what nobody reads"}}]}`}, "hi", nil, model.StopEnd,
		},
		"a refusal": {
			[]string{`{"choices":[{"delta":{"refusal":"I cannot "}}]}`, `{"choices":[{"delta":{"refusal":"do that."}}]}`, stop}, "I cannot do that.", nil, model.StopRefusal,
		},
	} {
		t.Run(name, func(t *testing.T) {
			body := "data: " + strings.Join(test.chunks, "\n\ndata: ") + "\n\n" // and no [DONE]
			resp, seen, err := ask(t, &server{body: body}, config.Model{BaseURL: "http://local/v1"}, request)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for i := range resp.Message.Calls {
				ids[resp.Message.Calls[i].ID] = true
				resp.Message.Calls[i].ID = ""
			}
			if len(ids) != len(test.calls) || ids[""] {
				t.Errorf("ids are %v", ids)
			}
			want := model.Message{Role: model.Assistant, Text: test.text, Calls: test.calls}
			if diff := cmp.Diff(want, resp.Message); diff != "" || seen != test.text || resp.Stop != test.stop {
				t.Errorf("stop %s, emitted %q, message (-want +got):\n%s", resp.Stop, seen, diff)
			}
		})
	}
}

// TestMarkerInTheText wants the end marker to count at the beginning of a line only.
func TestMarkerInTheText(t *testing.T) {
	body := `data: {"choices":[{"delta":{"content":"\ndata: [DONE]"}}]}` + "\n\n"
	_, _, err := ask(t, &server{body: body}, config.Model{BaseURL: "http://local/v1"}, request)
	if e, ok := err.(*model.Error); !ok || e.Kind != model.Cut {
		t.Errorf("error is %v, want a cut", err)
	}
}

func TestServerGivesUp(t *testing.T) {
	body := `data: {"choices":[{"delta":{"content":"well"},"finish_reason":"error"}]}` + "\n\n"
	_, _, err := ask(t, &server{body: body}, config.Model{BaseURL: "http://local/v1"}, request)
	if e, ok := err.(*model.Error); !ok || e.Kind != model.Overloaded || e.Model != "m" {
		t.Errorf("error is %v", err)
	}
}

// TestParametersFitTheServer wants the newer parameters to go to the vendor only.
func TestParametersFitTheServer(t *testing.T) {
	for name, test := range map[string]struct {
		base     string
		url      string
		limit    string
		cacheKey bool
	}{
		"the vendor":       {"", "https://api.openai.com/v1/chat/completions", "max_completion_tokens", true},
		"the vendor, eu":   {"https://eu.api.openai.com/v1", "https://eu.api.openai.com/v1/chat/completions", "max_completion_tokens", true},
		"a local server":   {"http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions", "max_tokens", false},
		"a trailing slash": {"http://localhost:8080/v1/", "http://localhost:8080/v1/chat/completions", "max_tokens", false},
		"a false friend":   {"https://api.openai.com.evil.example/v1", "https://api.openai.com.evil.example/v1/chat/completions", "max_tokens", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			_, _, _ = ask(t, s, config.Model{BaseURL: test.base, APIKey: "k"}, request)
			var sent map[string]any
			if err := json.Unmarshal(s.sent, &sent); err != nil {
				t.Fatal(err)
			}
			if sent[test.limit] != 77.0 || s.sentPath != test.url || (sent["prompt_cache_key"] != nil) != test.cacheKey {
				t.Errorf("sent %s to %s", s.sent, s.sentPath)
			}
		})
	}
}

// FuzzStream feeds bytes of a hostile server through the provider.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-9,\"function\":{\"name\":\"a\",\"arguments\":{\"a\":1}}}]},\"finish_reason\":\"length\"}]}\n\n",
		"data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-5,\"completion_tokens\":9223372036854775807}}\n\n",
		"data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\n", "data: {\"error\":null}\n\n",
		"event: x\nid: 1\nretry: 5\ndata\n\n", ": comment\r\n\r\n", "data: [1,2]\n\n", "data: \"\xff\"\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f\"}}]}\n\n", "",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, oneByte bool) {
		resp, seen, err := ask(t, &server{body: string(body), oneByte: oneByte}, config.Model{BaseURL: "http://local/v1", APIKey: "sk-secret"}, request)
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
