package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/observe/explain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// traces are a turn, that asked a person and delegated, and the turn that worked for it.
func traces(_ context.Context, id string) (explain.Trace, error) {
	t := explain.Trace{ID: id, Agent: "helper", Session: "irc:ann:helper", Channel: "irc", State: "done", Started: at(0), Ended: at(900)}
	switch id {
	case "t1":
		t.Messages = []explain.Message{{Text: "secret words"}}
		t.Route = []explain.Decision{{At: at(1), Kind: "route_table", By: "table", Answer: "helper", Nanos: 1000}}
		t.Steps = []explain.Step{{
			Seq: 1, At: at(300), Tier: "default", Provider: "anthropic", Model: "m", Stop: "tool_calls", Tokens: explain.Tokens{Input: 10, Output: 2, CacheRead: 5},
			Attempts: []explain.Attempt{{At: at(100)}},
			Calls: []explain.ToolCall{{
				ID: "c1", Tool: "agent.delegate", Outcome: "run", Where: "host", Reasons: []string{"secret reason"}, Args: json.RawMessage(`{"secret":1}`),
				Policies:  []explain.Decision{{At: at(310), By: "guard", Answer: "ask"}},
				Approvals: []explain.Approval{{ID: "A1", State: "consumed", Created: at(320), Decided: at(400)}},
				Started:   at(410), Ended: at(800), Result: "secret result", Child: "t2",
			}},
		}}
		t.Deliveries = []explain.Delivery{{Channel: "irc", State: "sent", Attempts: 1, Text: "secret answer"}}
	case "t2":
		t.Agent, t.Parent, t.ParentCall, t.State, t.Started, t.Ended = "other", "t1", "c1", "failed", at(420), at(700)
	case "behind":
		t.Agent, t.Parent, t.ParentCall, t.Background, t.Ended = "slow", "t1", "c1", true, at(5000)
	case "t1-behind":
		t.Steps = []explain.Step{{Seq: 1, At: at(300), Calls: []explain.ToolCall{{ID: "c1", Tool: "agent.delegate", Outcome: "run", Child: "behind"}}}}
	case "running":
		t.Ended = time.Time{}
	default:
		return t, errors.New("not found")
	}
	return t, nil
}

// collector is an OTLP/HTTP server that decodes what it is sent.
type collector struct {
	*httptest.Server
	got    chan export
	bodies chan string
	status atomic.Int32
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: make(chan export, 10), bodies: make(chan string, 10)}
	c.status.Store(http.StatusOK)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e export
		if err == nil {
			dec := json.NewDecoder(strings.NewReader(string(body)))
			dec.DisallowUnknownFields()
			err = dec.Decode(&e)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v: %s", r.Method, r.URL, err, body)
		}
		w.WriteHeader(int(c.status.Load()))
		c.got <- e
		c.bodies <- string(body)
	}))
	t.Cleanup(c.Close)
	return c
}

func start(t *testing.T, e *Exporter) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// The span of background work is sent when the work ends, as a part of the trace that it began in.
func TestSpansOfTheBackground(t *testing.T) {
	c := newCollector(t)
	e := New(Config{Endpoint: func() string { return c.URL }, Trace: traces, Settle: -1})
	start(t, e)
	sent := func(turn string) []span {
		e.Offer(turn)
		got := <-c.got
		<-c.bodies
		return got.ResourceSpans[0].ScopeSpans[0].Spans
	}
	find := func(spans []span, name string) (found span) {
		for _, s := range spans {
			if s.Name == name {
				found = s
			}
		}
		return found
	}
	first, behind := sent("t1"), sent("behind")
	call, child := find(first, "execute_tool agent.delegate"), find(behind, "invoke_agent slow")
	if child.SpanID == "" || child.ParentID != call.SpanID || child.TraceID != call.TraceID {
		t.Errorf("the child's span is %+v, its call's %+v", child, call)
	}
	if again := find(sent("t1-behind"), "invoke_agent slow"); again.SpanID != "" {
		t.Errorf("it is sent with its parent too: %+v", again)
	}
}

func TestSpans(t *testing.T) {
	c := newCollector(t)
	e := New(Config{Endpoint: func() string { return c.URL + "/" }, Trace: traces, Settle: -1})
	start(t, e)
	e.Offer("running")
	e.Offer("t1")
	got, body := <-c.got, <-c.bodies
	if strings.Contains(body, "secret") {
		t.Errorf("text left the host: %s", body)
	}
	spans := got.ResourceSpans[0].ScopeSpans[0].Spans
	byName := map[string]span{}
	for _, s := range spans {
		byName[s.Name] = s
		if len(s.TraceID) != 32 || len(s.SpanID) != 16 || s.TraceID != spans[0].TraceID || s.Start > s.End {
			t.Errorf("span %+v", s)
		}
	}
	for _, w := range []struct {
		name, above string
		kind        int
		start, end  time.Time
		failed      bool
	}{
		{"invoke_agent helper", "", kindServer, at(0), at(900), false},
		{"route", "invoke_agent helper", kindInternal, at(1).Add(-1000), at(1), false},
		{"chat m", "invoke_agent helper", kindClient, at(100), at(300), false},
		{"execute_tool agent.delegate", "invoke_agent helper", kindInternal, at(310), at(800), false},
		{"wait for approval", "execute_tool agent.delegate", kindInternal, at(320), at(400), false},
		{"invoke_agent other", "execute_tool agent.delegate", kindServer, at(420), at(700), true},
		{"deliver irc", "invoke_agent helper", kindClient, at(900), at(900), false},
	} {
		s, ok := byName[w.name]
		if !ok || s.ParentID != byName[w.above].SpanID || s.Kind != w.kind || s.Start != nanos(w.start) || s.End != nanos(w.end) || (s.Status.Code == statusError) != w.failed {
			t.Errorf("span %s below %q: %+v", w.name, w.above, s)
		}
	}
	if len(spans) != len(byName) || len(spans) != 7 {
		t.Errorf("%d spans: %s", len(spans), body)
	}
	for _, want := range []string{
		`{"key":"gen_ai.usage.input_tokens","value":{"intValue":"15"}}`, `{"key":"gen_ai.agent.name","value":{"stringValue":"helper"}}`,
		`{"key":"gen_ai.tool.name","value":{"stringValue":"agent.delegate"}}`, `{"key":"flynn.policy.guard","value":{"stringValue":"ask"}}`,
		`{"key":"gen_ai.response.finish_reasons","value":{"arrayValue":{"values":[{"stringValue":"tool_calls"}]}}}`,
		`{"key":"service.name","value":{"stringValue":"flynn"}}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
}

func TestOffByDefault(t *testing.T) {
	e := New(Config{Endpoint: func() string { return "" }, Trace: traces})
	e.Offer("t1")
	if len(e.queue) != 0 {
		t.Error("a turn waits to be sent to nobody")
	}
}

// TestLosses has an exporter that nobody runs, a collector that refuses and a turn that is not there: nothing waits, all is counted.
func TestLosses(t *testing.T) {
	c := newCollector(t)
	c.status.Store(http.StatusInternalServerError)
	lost := make(chan struct{}, 2*queueLength)
	e := New(Config{Endpoint: func() string { return c.URL }, Trace: traces, Settle: -1, Events: event.Only(func(Lost) { lost <- struct{}{} })})
	for range queueLength + 3 {
		e.Offer("unknown")
	}
	if len(lost) != 3 {
		t.Errorf("%d are lost, want 3", len(lost))
	}
	start(t, e)
	for range queueLength + 3 {
		<-lost
	}
	e.Offer("t1")
	<-lost
	<-c.got
}
