package providers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/modeltest"
)

func TestReasoningSettings(t *testing.T) {
	for name, test := range map[string]struct {
		reasoning config.Reasoning
		want      map[string]map[string]any // of the request, by vendor
	}{
		"off": {config.ReasoningOff, map[string]map[string]any{"anthropic": {}, "openai": {}}},
		"a word": {config.ReasoningMedium, map[string]map[string]any{
			"anthropic": {"thinking": map[string]any{"type": "adaptive"}, "output_config": map[string]any{"effort": "medium"}},
			"openai":    {"reasoning_effort": "medium"},
		}},
		"tokens": {"20000", map[string]map[string]any{
			"anthropic": {"thinking": map[string]any{"type": "enabled", "budget_tokens": 20000.0}},
			"openai":    {"reasoning_effort": "high"},
		}},
	} {
		forEach(t, func(t *testing.T, vendor string) {
			server := modeltest.New(t)
			server.Script(modeltest.Reply{Text: "so be it"})
			req := request()
			req.Reasoning, req.MaxTokens = test.reasoning, 24000
			if _, _, err := askServer(t, server, vendor, req); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var body map[string]any
			server.Requests()[0].JSON(t, &body)
			got := map[string]any{}
			for _, key := range []string{"thinking", "output_config", "reasoning_effort"} {
				if v, ok := body[key]; ok {
					got[key] = v
				}
			}
			if diff := cmp.Diff(test.want[vendor], got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
}

// TestThoughtsGoBack follows a tool loop: the server insists on its own thoughts, unchanged, and only within the loop.
func TestThoughtsGoBack(t *testing.T) {
	server := modeltest.New(t)
	shell := modeltest.Call{ID: "c1", Name: "shell__exec", Args: `{"command":"ls"}`}
	server.Script(modeltest.Reply{Thinking: "Grüße, let me see 🙂", Redacted: "c2VjcmV0", Text: "a moment", Calls: []modeltest.Call{shell}, Chunk: 1}, modeltest.Reply{Text: "done"})
	p := open(t, server.Config("anthropic"))
	stream := func(messages ...model.Message) model.Message {
		t.Helper()
		req := request(messages...)
		req.Reasoning, req.MaxTokens = "2000", 3000
		resp, err := p.Stream(t.Context(), req, func(model.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		return resp.Message
	}
	said := model.Message{Role: model.User, Text: "go on"}
	first := stream(said)
	want := []model.Thinking{
		{Model: "test-model", Text: "Grüße, let me see 🙂", Signature: modeltest.Signature("Grüße, let me see 🙂")}, {Model: "test-model", Data: "c2VjcmV0"},
	}
	if diff := cmp.Diff(want, first.Thinking); diff != "" || first.Text != "a moment" {
		t.Fatalf("the first answer is %+v (-want +got):\n%s", first, diff)
	}
	var stored model.Message // as it comes back from the store
	data, err := json.Marshal(first)
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	result := model.Message{Role: model.User, Results: []model.ToolResult{{ID: "c1", Text: "files"}}}
	last := stream(said, stored, result)
	stream(said, stored, result, last, said)

	foreign := stored
	foreign.Thinking = []model.Thinking{{Model: "another", Text: "mine", Signature: "unknown here"}}
	stream(said, foreign, result)

	for i, want := range []struct{ thoughts, enabled bool }{{false, true}, {true, true}, {false, true}, {false, false}} {
		body := string(server.Requests()[i].Body)
		if strings.Contains(body, `"redacted_thinking"`) != want.thoughts || strings.Contains(body, `"enabled"`) != want.enabled {
			t.Errorf("request %d, want %+v: %s", i, want, body)
		}
	}
}
