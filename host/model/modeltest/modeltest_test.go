package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	openai "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const text = "Grüße, 世界 🙂"

var (
	call  = modeltest.Call{ID: "call_1", Name: "shell__exec", Args: `{"command":"ls"}`}
	other = modeltest.Call{ID: "call_2", Name: "read", Args: `{"path":"/ä"}`}
	reply = modeltest.Reply{Text: text, Calls: []modeltest.Call{call, other}, Input: 12, Output: 34, CacheRead: 5, Chunk: 1}
)

// client keeps its connections to itself, so that goleak sees them end.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func anthropicClient(t *testing.T, s *modeltest.Server) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(s.URL),
		anthropicoption.WithAPIKey(modeltest.Key), anthropicoption.WithHTTPClient(client(t)), anthropicoption.WithMaxRetries(0))
}

func openaiClient(t *testing.T, s *modeltest.Server) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(s.URL+"/v1"), openaioption.WithAPIKey(modeltest.Key),
		openaioption.WithHTTPClient(client(t)), openaioption.WithMaxRetries(0))
}

var anthropicParams = anthropic.MessageNewParams{
	Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
}

var openaiParams = openai.ChatCompletionNewParams{
	Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
}

// answer is what both SDKs make of a reply.
type answer struct {
	Text  string
	Calls []modeltest.Call
	Stop  string
	Usage [3]int64
}

func fromAnthropic(m *anthropic.Message) answer {
	a := answer{Stop: string(m.StopReason), Usage: [3]int64{m.Usage.InputTokens, m.Usage.OutputTokens, m.Usage.CacheReadInputTokens}}
	for _, block := range m.Content {
		switch block.Type {
		case "text":
			a.Text += block.Text
		case "tool_use":
			a.Calls = append(a.Calls, modeltest.Call{ID: block.ID, Name: block.Name, Args: string(block.Input)})
		}
	}
	return a
}

func fromOpenAI(c *openai.ChatCompletion) answer {
	u := c.Usage
	a := answer{Usage: [3]int64{u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens}}
	for _, choice := range c.Choices {
		a.Text, a.Stop = choice.Message.Content, choice.FinishReason
		for _, c := range choice.Message.ToolCalls {
			a.Calls = append(a.Calls, modeltest.Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
	}
	return a
}

// TestSDKsUnderstand compares what the official clients and their accumulators read with what was scripted.
func TestSDKsUnderstand(t *testing.T) {
	ask := map[string]func(*testing.T, *modeltest.Server) (answer, error){
		"anthropic, streaming": func(t *testing.T, s *modeltest.Server) (answer, error) {
			c := anthropicClient(t, s)
			stream := c.Messages.NewStreaming(t.Context(), anthropicParams)
			var m anthropic.Message
			for stream.Next() {
				if err := m.Accumulate(stream.Current()); err != nil {
					t.Fatal(err)
				}
			}
			return fromAnthropic(&m), stream.Err()
		},
		"anthropic, whole": func(t *testing.T, s *modeltest.Server) (answer, error) {
			c := anthropicClient(t, s)
			m, err := c.Messages.New(t.Context(), anthropicParams)
			return fromAnthropic(m), err
		},
		"openai, streaming": func(t *testing.T, s *modeltest.Server) (answer, error) {
			c := openaiClient(t, s)
			stream := c.Chat.Completions.NewStreaming(t.Context(), openaiParams)
			var acc openai.ChatCompletionAccumulator
			for stream.Next() {
				if !acc.AddChunk(stream.Current()) {
					t.Fatal("the accumulator refuses a chunk")
				}
			}
			return fromOpenAI(&acc.ChatCompletion), stream.Err()
		},
		"openai, whole": func(t *testing.T, s *modeltest.Server) (answer, error) {
			c := openaiClient(t, s)
			m, err := c.Chat.Completions.New(t.Context(), openaiParams)
			return fromOpenAI(m), err
		},
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			s := modeltest.New(t)
			s.Script(reply)
			got, err := ask(t, s)
			if err != nil {
				t.Fatal(err)
			}
			want := answer{Text: text, Calls: reply.Calls, Stop: "tool_use", Usage: [3]int64{12, 34, 5}}
			if strings.HasPrefix(name, "openai") {
				want.Stop = "tool_calls"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSDKsSeeFailures wants the errors to be those that the official clients know from the real APIs.
func TestSDKsSeeFailures(t *testing.T) {
	for name, test := range map[string]struct {
		fail                modeltest.Failure
		anthropic, openai   int
		anthropicType, code string
	}{
		"bad key":    {modeltest.BadKey, 401, 401, "authentication_error", "invalid_api_key"},
		"rate limit": {modeltest.RateLimit, 429, 429, "rate_limit_error", "rate_limit_exceeded"},
		"overload":   {modeltest.Overload, 529, 503, "overloaded_error", ""},
		"too long":   {modeltest.TooLong, 400, 400, "invalid_request_error", "context_length_exceeded"},
		"no model":   {modeltest.NoModel, 404, 404, "not_found_error", "model_not_found"},
		"no credit":  {modeltest.NoCredit, 400, 429, "billing_error", "insufficient_quota"},
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.New(t)
			s.Script(modeltest.Reply{Fail: test.fail})
			ac, oc := anthropicClient(t, s), openaiClient(t, s)
			_, err := ac.Messages.New(t.Context(), anthropicParams)
			var ae *anthropic.Error
			if !errors.As(err, &ae) || ae.StatusCode != test.anthropic || string(ae.Type()) != test.anthropicType {
				t.Errorf("anthropic: %v", err)
			}
			_, err = oc.Chat.Completions.New(t.Context(), openaiParams)
			var oe *openai.Error
			if !errors.As(err, &oe) || oe.StatusCode != test.openai || oe.Code != test.code {
				t.Errorf("openai: %v", err)
			}
		})
	}
}

func post(t *testing.T, s *modeltest.Server, path, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", modeltest.Key)
	req.Header.Set("Authorization", "Bearer "+modeltest.Key)
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

const plain = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

func TestBadManners(t *testing.T) {
	for name, test := range map[string]struct {
		reply  modeltest.Reply
		suffix string // of the body
		err    error
	}{
		"good":           {modeltest.Reply{Text: "x"}, "data: [DONE]\n\n", nil},
		"cut":            {modeltest.Reply{Text: "x", Cut: 7}, `data: {`, io.ErrUnexpectedEOF},
		"cut cleanly":    {modeltest.Reply{Text: "x", Cut: 7, CutCleanly: true}, `data: {`, nil},
		"no done":        {modeltest.Reply{Text: "x", NoDone: true, NoUsage: true}, `"usage":null}` + "\n\n", nil},
		"raw":            {modeltest.Reply{Raw: "data: {oops\n\n"}, "data: {oops\n\n", nil},
		"tail":           {modeltest.Reply{Tail: ": bye\n\n"}, "[DONE]\n\n: bye\n\n", nil},
		"error in midst": {modeltest.Reply{Text: "x", Fail: modeltest.Overload, FailAfter: true}, "try again later\",\"param\":null,\"type\":\"server_error\"}}\n\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.New(t)
			s.Script(test.reply)
			_, body, err := post(t, s, "/v1/chat/completions", plain)
			if !strings.HasSuffix(body, test.suffix) || !errors.Is(err, test.err) {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
}

func TestStallLastsUntilTheClientLeaves(t *testing.T) {
	s := modeltest.New(t)
	s.Script(modeltest.Reply{Text: "x", Stall: true, Cut: 5})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	c := openaiClient(t, s)
	stream := c.Chat.Completions.NewStreaming(ctx, openaiParams)
	if stream.Next() || !errors.Is(stream.Err(), context.DeadlineExceeded) {
		t.Errorf("error is %v", stream.Err())
	}
}

func TestScriptIsTakenInOrderAndItsLastStays(t *testing.T) {
	s := modeltest.New(t)
	s.Script(modeltest.Reply{Status: 418, Raw: "a"}, modeltest.RateLimited(3*time.Second))
	for _, want := range []int{418, 429, 429} {
		if resp, _, _ := post(t, s, "/v1/chat/completions", plain); resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		} else if want == 429 && resp.Header.Get("Retry-After") != "3" {
			t.Errorf("headers are %v", resp.Header)
		}
	}
	var got struct{ Model string }
	if s.Requests()[2].JSON(t, &got); got.Model != "m" || len(s.Requests()) != 3 {
		t.Errorf("requests are %+v", s.Requests())
	}
}

// TestRefusals wants the requests that the real APIs refuse to be refused here.
func TestRefusals(t *testing.T) {
	anthropicBody := func(messages string) string { return `{"model":"m","max_tokens":1,"messages":[` + messages + `]}` }
	openaiBody := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	const (
		hi     = `{"role":"user","content":[{"type":"text","text":"hi"}]}`
		use    = `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":{}}]}`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]}`
		ohi    = `{"role":"user","content":"hi"}`
		ouse   = `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}]}`
		otool  = `{"role":"tool","tool_call_id":"c1","content":""}`
	)
	for name, test := range map[string]struct {
		path, body string
		ok         bool
	}{
		"anthropic, good":                 {"/v1/messages", anthropicBody(hi + "," + use + "," + result), true},
		"anthropic, no JSON":              {"/v1/messages", `{`, false},
		"anthropic, no limit":             {"/v1/messages", `{"model":"m","messages":[` + hi + `]}`, false},
		"anthropic, no messages":          {"/v1/messages", anthropicBody(""), false},
		"anthropic, assistant first":      {"/v1/messages", anthropicBody(use + "," + result), false},
		"anthropic, call without result":  {"/v1/messages", anthropicBody(hi + "," + use + "," + hi), false},
		"anthropic, call at the end":      {"/v1/messages", anthropicBody(hi + "," + use), false},
		"anthropic, result without call":  {"/v1/messages", anthropicBody(result), false},
		"anthropic, empty text":           {"/v1/messages", anthropicBody(`{"role":"user","content":[{"type":"text","text":""}]}`), false},
		"anthropic, text before result":   {"/v1/messages", anthropicBody(hi + "," + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"c1"}]}`), false},
		"anthropic, input no object":      {"/v1/messages", anthropicBody(hi + `,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":"x"}]},` + result), false},
		"anthropic, dot in a tool's name": {"/v1/messages", `{"model":"m","max_tokens":1,"messages":[` + hi + `],"tools":[{"name":"a.b","input_schema":{"type":"object"}}]}`, false},
		"openai, good":                    {"/v1/chat/completions", openaiBody(ohi + "," + ouse + "," + otool), true},
		"openai, no JSON":                 {"/v1/chat/completions", `{`, false},
		"openai, no model":                {"/v1/chat/completions", `{"messages":[` + ohi + `]}`, false},
		"openai, call without result":     {"/v1/chat/completions", openaiBody(ohi + "," + ouse + "," + ohi), false},
		"openai, call at the end":         {"/v1/chat/completions", openaiBody(ohi + "," + ouse), false},
		"openai, result without call":     {"/v1/chat/completions", openaiBody(otool), false},
		"openai, arguments no object":     {"/v1/chat/completions", openaiBody(ohi + "," + strings.Replace(ouse, `"{}"`, `"[]"`, 1) + "," + otool), false},
		"openai, dot in a tool's name":    {"/v1/chat/completions", `{"model":"m","messages":[` + ohi + `],"tools":[{"type":"function","function":{"name":"a.b","parameters":{}}}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body, err := post(t, modeltest.New(t), test.path, test.body)
			if err != nil || (resp.StatusCode == 200) != test.ok || !json.Valid([]byte(body)) {
				t.Errorf("status %d: %s", resp.StatusCode, body)
			}
		})
	}
}

func TestOtherPathsAndKeys(t *testing.T) {
	s := modeltest.New(t)
	if resp, _, _ := post(t, s, "/v1/other", "{}"); resp.StatusCode != 404 {
		t.Errorf("status %d", resp.StatusCode)
	}
	cfg := s.Config("openai")
	if cfg.BaseURL != s.URL+"/v1" || cfg.APIKey.Reveal() != modeltest.Key {
		t.Errorf("config is %+v", cfg)
	}
	c := openai.NewClient(openaioption.WithBaseURL(cfg.BaseURL), openaioption.WithAPIKey("wrong"), openaioption.WithHTTPClient(client(t)), openaioption.WithMaxRetries(0))
	var e *openai.Error
	if _, err := c.Chat.Completions.New(t.Context(), openaiParams); !errors.As(err, &e) || e.StatusCode != 401 {
		t.Errorf("error is %v", err)
	}
}
