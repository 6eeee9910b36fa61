package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/model/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vendors are the providers with a wire format.
var vendors = []string{"anthropic", "openai"}

func forEach(t *testing.T, test func(t *testing.T, vendor string)) {
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) { test(t, vendor) })
	}
}

func open(t testing.TB, cfg config.Model) model.Provider {
	t.Helper()
	p, err := providers.All()[cfg.Provider](cfg)
	if err != nil {
		t.Fatal(err)
	}
	if closer, ok := p.(interface{ Close() error }); ok {
		t.Cleanup(func() { _ = closer.Close() })
	}
	return p
}

// ask scripts a server, calls it once and returns what came of it.
func ask(t *testing.T, vendor string, reply modeltest.Reply, req model.Request) (model.Response, string, error) {
	t.Helper()
	server := modeltest.New(t)
	server.Script(reply)
	return askServer(t, server, vendor, req)
}

func askServer(t *testing.T, server *modeltest.Server, vendor string, req model.Request) (model.Response, string, error) {
	t.Helper()
	var seen strings.Builder
	resp, err := open(t, server.Config(vendor)).Stream(t.Context(), req, func(d model.Delta) { seen.WriteString(d.Text) })
	return resp, seen.String(), err
}

var shellTool = model.Tool{Name: "shell.exec", Description: "runs a command",
	Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}

func request(messages ...model.Message) model.Request {
	if len(messages) == 0 {
		messages = []model.Message{{Role: model.User, Text: "hello"}}
	}
	return model.Request{Model: "test-model", MaxTokens: 100, System: "be brief", Messages: messages, Tools: []model.Tool{shellTool}}
}

const polyglot = "Grüße, 世界! 🙂🙃 \"quoted\"\n\tand a backslash \\ at the end"

func TestAnswers(t *testing.T) {
	shell := modeltest.Call{ID: "call_1", Name: "shell__exec", Args: `{"command":"ls -l \"ä 🙂\""}`}
	shellCall := model.ToolCall{ID: "call_1", Name: "shell.exec", Args: json.RawMessage(shell.Args)}
	for name, test := range map[string]struct {
		reply modeltest.Reply
		want  model.Response
	}{
		"text": {
			modeltest.Reply{Text: polyglot, Input: 10, Output: 5},
			model.Response{Message: model.Message{Text: polyglot}, Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 5}},
		},
		"text, one byte at a time": {
			modeltest.Reply{Text: polyglot, Chunk: 1, Piece: 1, Input: 10, Output: 5},
			model.Response{Message: model.Message{Text: polyglot}, Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 5}},
		},
		"call, seven bytes at a time": {
			modeltest.Reply{Calls: []modeltest.Call{shell}, Chunk: 7, Piece: 3, Input: 10, Output: 5},
			model.Response{Message: model.Message{Calls: []model.ToolCall{shellCall}}, Stop: model.StopToolCalls, Usage: model.Usage{Input: 10, Output: 5}},
		},
		"text and parallel calls": {
			modeltest.Reply{Text: "Let me see.", Calls: []modeltest.Call{shell, {ID: "call_2", Name: "unknown", Args: `{}`}}, Input: 1, Output: 1},
			model.Response{
				Message: model.Message{Text: "Let me see.", Calls: []model.ToolCall{shellCall, {ID: "call_2", Name: "unknown", Args: json.RawMessage(`{}`)}}},
				Stop:    model.StopToolCalls, Usage: model.Usage{Input: 1, Output: 1},
			},
		},
		"call without arguments": {
			modeltest.Reply{Calls: []modeltest.Call{{ID: "call_1", Name: "shell__exec"}}, Input: 1, Output: 1},
			model.Response{
				Message: model.Message{Calls: []model.ToolCall{{ID: "call_1", Name: "shell.exec", Args: json.RawMessage(`{}`)}}},
				Stop:    model.StopToolCalls, Usage: model.Usage{Input: 1, Output: 1},
			},
		},
		"call with arguments that are not JSON": {
			modeltest.Reply{Calls: []modeltest.Call{{ID: "call_1", Name: "shell__exec", Args: `{"command": ls`}}, Input: 1, Output: 1},
			model.Response{
				Message: model.Message{Calls: []model.ToolCall{{ID: "call_1", Name: "shell.exec", Args: json.RawMessage(`{"command": ls`)}}},
				Stop:    model.StopToolCalls, Usage: model.Usage{Input: 1, Output: 1},
			},
		},
		"nothing at all": {
			modeltest.Reply{Input: 1, Output: 1},
			model.Response{Stop: model.StopEnd, Usage: model.Usage{Input: 1, Output: 1}},
		},
		"no usage figures": {
			modeltest.Reply{Text: "12345678", NoUsage: true},
			model.Response{Message: model.Message{Text: "12345678"}, Stop: model.StopEnd, Usage: model.Usage{Input: 30, Output: 2, Estimated: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, vendor string) {
				got, seen, err := ask(t, vendor, test.reply, request())
				if err != nil {
					t.Fatal(err)
				}
				test.want.Message.Role = model.Assistant
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if seen != got.Message.Text {
					t.Errorf("emitted %q, answered %q", seen, got.Message.Text)
				}
			})
		})
	}
}

func TestStopReasons(t *testing.T) {
	for vendor, reasons := range map[string]map[string]model.Stop{
		"anthropic": {
			"end_turn": model.StopEnd, "stop_sequence": model.StopEnd, "max_tokens": model.StopLength,
			"model_context_window_exceeded": model.StopLength, "refusal": model.StopRefusal, "something_new": model.StopEnd,
		},
		"openai": {
			"stop": model.StopEnd, "length": model.StopLength, "content_filter": model.StopRefusal,
			"STOP": model.StopEnd, "eos": model.StopEnd, "tool_calls": model.StopEnd, // without a call
		},
	} {
		for reason, want := range reasons {
			t.Run(vendor+"/"+reason, func(t *testing.T) {
				got, _, err := ask(t, vendor, modeltest.Reply{Text: "well", Stop: reason}, request())
				if err != nil || got.Stop != want {
					t.Errorf("stop is %q, %v; want %q", got.Stop, err, want)
				}
			})
		}
	}
}

func TestCachedTokensAreCountedOnce(t *testing.T) {
	want := model.Usage{Input: 20, Output: 5, CacheRead: 80}
	for vendor, input := range map[string]int{"anthropic": 20, "openai": 100} {
		got, _, err := ask(t, vendor, modeltest.Reply{Text: "x", Input: input, Output: 5, CacheRead: 80}, request())
		if err != nil || got.Usage != want {
			t.Errorf("%s: usage is %+v, %v; want %+v", vendor, got.Usage, err, want)
		}
	}
}

func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		reply modeltest.Reply
		kind  model.Kind
		after time.Duration
	}{
		"bad key":                     {modeltest.Reply{Fail: modeltest.BadKey}, model.Auth, 0},
		"no credit":                   {modeltest.Reply{Fail: modeltest.NoCredit}, model.Auth, 0},
		"rate limit, seconds":         {modeltest.RateLimited(7 * time.Second), model.RateLimited, 7 * time.Second},
		"rate limit, milliseconds":    {withHeader(modeltest.RateLimit, "Retry-After-Ms", "1500"), model.RateLimited, 1500 * time.Millisecond},
		"rate limit without a header": {modeltest.Reply{Fail: modeltest.RateLimit}, model.RateLimited, 0},
		"overloaded":                  {modeltest.Reply{Fail: modeltest.Overload}, model.Overloaded, 0},
		"server error":                {modeltest.Reply{Fail: modeltest.ServerError}, model.Overloaded, 0},
		"too long":                    {modeltest.Reply{Fail: modeltest.TooLong}, model.TooLong, 0},
		"bad request":                 {modeltest.Reply{Fail: modeltest.BadRequest}, model.BadRequest, 0},
		"no such model":               {modeltest.Reply{Fail: modeltest.NoModel}, model.BadRequest, 0},
		"llama.cpp is full":           {raw(400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing it","type":"exceed_context_size_error"}}`), model.TooLong, 0},
		"error as plain string":       {raw(400, `{"error":"model 'x' not found"}`), model.BadRequest, 0},
		"error in a list":             {raw(429, `[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}]`), model.RateLimited, 0},
		"HTML from a proxy":           {modeltest.Reply{Status: 502, ContentType: "text/html", Raw: "<html><h1>502 Bad Gateway</h1></html>"}, model.Overloaded, 0},
		"empty body":                  {modeltest.Reply{Status: 503, Raw: " "}, model.Overloaded, 0},
		"redirect":                    {modeltest.Reply{Status: 307, Raw: " ", Header: http.Header{"Location": {"/elsewhere"}}}, model.BadRequest, 0},
		"wrong content type":          {modeltest.Reply{ContentType: "text/html", Raw: "<html>Welcome</html>"}, model.BadAnswer, 0},
		"error with status 200":       {modeltest.Reply{ContentType: "application/json", Raw: `{"error":{"message":"slow down","type":"rate_limit_error"}}`}, model.RateLimited, 0},
		"malformed event":             {modeltest.Reply{Raw: "event: message_start\ndata: {\"type\": oops\n\n"}, model.BadAnswer, 0},
		"error in the stream":         {modeltest.Reply{Text: "Let me", Fail: modeltest.Overload, FailAfter: true}, model.Overloaded, 0},
		"connection cut at once":      {modeltest.Reply{Text: polyglot, Cut: 1}, model.Cut, 0},
		"connection cut in the text":  {modeltest.Reply{Text: strings.Repeat(polyglot, 20), Cut: 900}, model.Cut, 0},
		"body just ends in the text":  {modeltest.Reply{Text: strings.Repeat(polyglot, 20), Cut: 900, CutCleanly: true}, model.Cut, 0},
		"no end marker":               {modeltest.Reply{Text: "all of it", NoEnd: true}, model.Cut, 0},
		"empty stream":                {modeltest.Reply{Raw: "\n\n"}, model.Cut, 0},
		"answer of 40 MiB":            {modeltest.Reply{Raw: strings.Repeat(": keep alive, says the server\n\n", 40<<20/32), Chunk: 1 << 20}, model.BadAnswer, 0},
	} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, vendor string) {
				_, _, err := ask(t, vendor, test.reply, request())
				var e *model.Error
				if !errors.As(err, &e) {
					t.Fatalf("error is %v, want a *model.Error", err)
				}
				if e.Kind != test.kind || e.RetryAfter != test.after || e.Provider != vendor || e.Model != "test-model" {
					t.Errorf("error is %+v, want kind %s, retry after %s", e, test.kind, test.after)
				}
				if strings.Contains(err.Error(), modeltest.Key) {
					t.Errorf("the error shows the key: %v", err)
				}
			})
		})
	}
}

func withHeader(f modeltest.Failure, key, value string) modeltest.Reply {
	return modeltest.Reply{Fail: f, Header: http.Header{key: {value}}}
}

func raw(status int, body string) modeltest.Reply {
	return modeltest.Reply{Status: status, ContentType: "application/json", Raw: body}
}

func TestRetryAfterAsDate(t *testing.T) {
	at := time.Now().Add(20 * time.Second).UTC().Truncate(time.Second)
	most := time.Until(at)
	_, _, err := ask(t, "openai", withHeader(modeltest.RateLimit, "Retry-After", at.Format(http.TimeFormat)), request())
	var e *model.Error
	if !errors.As(err, &e) || e.RetryAfter < time.Until(at) || e.RetryAfter > most {
		t.Errorf("error is %+v, want %v to %v", e, time.Until(at), most)
	}
}

func TestUnreachable(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		cfg := config.Model{Provider: vendor, Model: "m", BaseURL: "http://127.0.0.1:1/", APIKey: modeltest.Key}
		_, err := open(t, cfg).Stream(t.Context(), request(), func(model.Delta) {})
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.Unreachable {
			t.Errorf("error is %v, want unreachable", err)
		}
	})
}

func TestContext(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		for name, test := range map[string]struct {
			reply modeltest.Reply
		}{
			"before the headers": {modeltest.Reply{Stall: true}},
			"in the stream":      {modeltest.Reply{Text: strings.Repeat("text ", 100), Stall: true, Cut: 600}},
		} {
			t.Run(name+"/deadline", func(t *testing.T) {
				server := modeltest.New(t)
				server.Script(test.reply)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := open(t, server.Config(vendor)).Stream(ctx, request(), func(model.Delta) {})
				var e *model.Error
				if !errors.As(err, &e) || e.Kind != model.Timeout {
					t.Errorf("error is %v, want a timeout", err)
				}
			})
		}
		t.Run("cancel in the stream", func(t *testing.T) {
			server := modeltest.New(t)
			server.Script(modeltest.Reply{Text: strings.Repeat("text ", 100), Stall: true, Cut: 900})
			ctx, cancel := context.WithCancel(t.Context())
			_, err := open(t, server.Config(vendor)).Stream(ctx, request(), func(model.Delta) { cancel() })
			var e *model.Error
			if !errors.Is(err, context.Canceled) || errors.As(err, &e) {
				t.Errorf("error is %v, want a plain cancellation", err)
			}
		})
	})
}

// TestTranscripts sends transcripts of every sad shape; the fake server refuses what the real ones refuse.
func TestTranscripts(t *testing.T) {
	call := func(id, name, args string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
	}
	user := model.Message{Role: model.User, Text: "go on"}
	for name, messages := range map[string][]model.Message{
		"call and result": {
			user,
			{Role: model.Assistant, Text: "ok", Calls: []model.ToolCall{call("c1", "shell.exec", `{"command":"ls"}`)}},
			{Role: model.User, Results: []model.ToolResult{{ID: "c1", Text: "a b c"}}},
		},
		"parallel calls, results in another order, empty and failed": {
			user,
			{Role: model.Assistant, Calls: []model.ToolCall{call("c1", "shell.exec", `{}`), call("c2", "shell.exec", `{}`)}},
			{Role: model.User, Text: "and hurry", Results: []model.ToolResult{{ID: "c2", IsError: true, Text: "no"}, {ID: "c1"}}},
		},
		"arguments that are no object": {
			user,
			{Role: model.Assistant, Calls: []model.ToolCall{
				call("c1", "shell.exec", `{"command": ls`), call("c2", "shell.exec", `"ls"`), call("c3", "shell.exec", ``),
				call("c4", "shell.exec", "\xff{"), call("c5", "shell.exec", `null`)}},
			{Role: model.User, Results: []model.ToolResult{{ID: "c1"}, {ID: "c2"}, {ID: "c3"}, {ID: "c4"}, {ID: "c5"}}},
		},
		"a call cut short by a crash":        {user, {Role: model.Assistant, Calls: []model.ToolCall{call("c1", "shell.exec", `{}`)}}, user},
		"a call at the very end":             {user, {Role: model.Assistant, Calls: []model.ToolCall{call("c1", "shell.exec", `{}`)}}},
		"a result without its call":          {{Role: model.User, Results: []model.ToolResult{{ID: "c9", Text: "lost"}}}},
		"a history that begins in its midst": {{Role: model.Assistant, Text: "as I said"}, user},
		"empty messages":                     {{Role: model.User}, {Role: model.Assistant}, user},
		"ids of another vendor": {
			user,
			{Role: model.Assistant, Calls: []model.ToolCall{call("functions.shell:0", "shell.exec", `{}`), call(strings.Repeat("x", 90), "a tool, gone now", `{}`)}},
			{Role: model.User, Results: []model.ToolResult{{ID: "functions.shell:0"}, {ID: strings.Repeat("x", 90)}}},
		},
		"the same id twice": {
			user,
			{Role: model.Assistant, Calls: []model.ToolCall{call("c1", "shell.exec", `{}`), call("c1", "shell.exec", `{}`)}},
			{Role: model.User, Results: []model.ToolResult{{ID: "c1"}, {ID: "c1"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, vendor string) {
				if _, _, err := ask(t, vendor, modeltest.Reply{Text: "fine"}, request(messages...)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestToolsWithTheSameWireNameAreRefused(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		req := request()
		req.Tools = append(req.Tools, shellTool)
		_, _, err := ask(t, vendor, modeltest.Reply{}, req)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.BadRequest {
			t.Errorf("error is %v, want bad_request", err)
		}
	})
}

// TestEnvironmentIsIgnored fills the environment with everything that the official SDKs look for.
func TestEnvironmentIsIgnored(t *testing.T) {
	decoy := modeltest.New(t)
	for key, value := range map[string]string{
		"OPENAI_API_KEY": "sk-env", "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_ORG_ID": "env-org", "OPENAI_PROJECT_ID": "env-project",
		"OPENAI_BASE_URL": decoy.URL + "/v1", "OPENAI_CUSTOM_HEADERS": "X-Env: leaked",
		"ANTHROPIC_API_KEY": "sk-env", "ANTHROPIC_AUTH_TOKEN": "sk-env-token", "ANTHROPIC_BASE_URL": decoy.URL,
		"ANTHROPIC_CUSTOM_HEADERS": "X-Env: leaked", "ANTHROPIC_PROFILE": "nobody", "ANTHROPIC_OPEN_TELEMETRY": "true",
	} {
		t.Setenv(key, value)
	}
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Text: "ok"})
		if _, _, err := askServer(t, server, vendor, request()); err != nil {
			t.Fatal(err)
		}
		for key, values := range server.Requests()[0].Header {
			for _, value := range values {
				if strings.Contains(value, "env") || value == "leaked" || key == "Traceparent" {
					t.Errorf("the environment leaked into header %s: %s", key, value)
				}
			}
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("the server saw %d requests, want 1", n)
		}
	})
	if n := len(decoy.Requests()); n != 0 {
		t.Errorf("%d requests went to the address of the environment", n)
	}
}

// TestKeylessServer wants no credential at all to go to a server that was given none.
func TestKeylessServer(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-env")
	t.Setenv("ANTHROPIC_API_KEY", "sk-env")
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		cfg := server.Config(vendor)
		cfg.APIKey = ""
		_, err := open(t, cfg).Stream(t.Context(), request(), func(model.Delta) {})
		if err == nil {
			t.Fatal("the server took a request without a key")
		}
		h := server.Requests()[0].Header
		if h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
			t.Errorf("a key from nowhere was sent: %v", h)
		}
	})
}

func TestKeyIsRequiredForTheVendor(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		if _, err := providers.All()[vendor](config.Model{Provider: vendor, Model: "m"}); err == nil || !strings.Contains(err.Error(), "api_key_env") {
			t.Errorf("error is %v, want one that names api_key_env", err)
		}
	})
}

// TestNoRetries wants one request per call: retries belong to Set.
func TestNoRetries(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Fail: modeltest.Overload})
		if _, _, err := askServer(t, server, vendor, request()); err == nil {
			t.Fatal("want an error")
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("the server saw %d requests, want 1", n)
		}
	})
}

// TestConnectionIsKept wants the second call on the connection of the first, whatever is left unread.
func TestConnectionIsKept(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Text: "ok", Tail: ": bye\n\n"})
		p := open(t, server.Config(vendor))
		for range 3 {
			if _, err := p.Stream(t.Context(), request(), func(model.Delta) {}); err != nil {
				t.Fatal(err)
			}
		}
		if r := server.Requests(); r[0].From != r[1].From || r[1].From != r[2].From {
			t.Errorf("calls came from %s, %s and %s", r[0].From, r[1].From, r[2].From)
		}
	})
}

// TestServerThatDoesNotHangUp wants the answer when it is there, not when the connection ends.
func TestServerThatDoesNotHangUp(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Text: "done", Stall: true, Cut: 1 << 20})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resp, err := open(t, server.Config(vendor)).Stream(ctx, request(), func(model.Delta) {})
		if err != nil || resp.Message.Text != "done" || ctx.Err() != nil {
			t.Errorf("answer is %+v, %v", resp.Message, err)
		}
	})
}

// TestParallelCalls shares one Set between many turns, as the host does.
func TestParallelCalls(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Text: polyglot, Chunk: 64})
		set, err := model.NewSet(map[string]config.Model{"default": server.Config(vendor)}, model.Options{Providers: providers.All()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = set.Close() })
		var turns errgroup.Group
		for range 16 {
			turns.Go(func() error {
				resp, err := set.Stream(t.Context(), "default", request(), nil)
				if err == nil && resp.Message.Text != polyglot {
					err = errors.New("answered " + resp.Message.Text)
				}
				return err
			})
		}
		if err := turns.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestFailover runs a Set over both vendors: the first cuts its stream, the second answers.
func TestFailover(t *testing.T) {
	first, second := modeltest.New(t), modeltest.New(t)
	first.Script(modeltest.Reply{Text: "half an ans", Fail: modeltest.NoCredit, FailAfter: true})
	second.Script(modeltest.Reply{Text: "whole", Input: 1000, Output: 1000})
	def, complex := second.Config("openai"), first.Config("anthropic")
	complex.Fallbacks = []string{"default"}
	def.Prices = config.Prices{Input: 1, Output: 3}
	var log bytes.Buffer
	set, err := model.NewSet(map[string]config.Model{"default": def, "complex": complex},
		model.Options{Providers: providers.All(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	var seen strings.Builder
	resp, err := set.Stream(t.Context(), "complex", request(), func(d model.Delta) {
		if d.Reset {
			seen.Reset()
		}
		seen.WriteString(d.Text)
	})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Tier != "default" || resp.Provider != "openai" || seen.String() != "whole" || resp.Usage.CostUSD != 0.004 {
		t.Errorf("answer is %+v, watcher saw %q", resp, seen.String())
	}
	if strings.Contains(log.String(), modeltest.Key) || !strings.Contains(log.String(), "next_tier=default") {
		t.Errorf("log is %s", log.String())
	}
}
