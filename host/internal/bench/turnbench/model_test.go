package turnbench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeModel answers like OpenAI's Chat Completions, at once: "WRITE name" by one call of the tool that writes files, a tool's result by
// its text, and everything else by repeating it. Each side of a comparison has it for its model.
type fakeModel struct {
	url  string        // base URL
	gate chan struct{} // answers to a tool's result wait until it is closed; nil lets them pass
	held atomic.Int64  // of them, those that wait
}

// newFakeModel starts one on loopback.
func newFakeModel(b *testing.B, gate chan struct{}) *fakeModel {
	m := &fakeModel{gate: gate}
	s := httptest.NewServer(m)
	b.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	m.url = s.URL + "/v1"
	return m
}

// pass waits at the gate.
func (m *fakeModel) pass(ctx context.Context) {
	if m.gate == nil {
		return
	}
	m.held.Add(1)
	defer m.held.Add(-1)
	select {
	case <-m.gate:
	case <-ctx.Done():
	}
}

// chatRequest is what of a request counts here.
type chatRequest struct {
	Stream   bool
	Messages []struct {
		Role    string
		Content json.RawMessage // text, or a list of parts
	}
	Tools []struct {
		Function struct {
			Name       string
			Parameters struct{ Properties map[string]any }
		}
	}
}

type object = map[string]any

func (m *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) == 0 {
		http.Error(w, "not a chat", http.StatusBadRequest)
		return
	}
	if req.Messages[len(req.Messages)-1].Role == "tool" {
		m.pass(r.Context())
	}
	message, stop := req.answer()
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(completion("chat.completion", object{"index": 0, "message": message, "finish_reason": stop}))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []object{{"index": 0, "delta": message, "finish_reason": nil}, {"index": 0, "delta": object{}, "finish_reason": stop}} {
		text, _ := json.Marshal(completion("chat.completion.chunk", choice)) // maps of plain values
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func completion(kind string, choice object) object {
	return object{
		"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "fake", "choices": []object{choice},
		"usage": object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	}
}

// answer is the message of the model, and why it stops.
func (r chatRequest) answer() (message object, stop string) {
	last := r.Messages[len(r.Messages)-1]
	text := plain(last.Content)
	_, name, write := strings.Cut(text, "WRITE ")
	if last.Role == "tool" || !write {
		return object{"role": "assistant", "content": "It says: " + text}, "stop"
	}
	name, _, _ = strings.Cut(name, "\n")
	args, _ := json.Marshal(object{"path": name, "content": "the text of " + name})
	return object{"role": "assistant", "content": "", "tool_calls": []object{{
		"index": 0, "id": "call_1", "type": "function", "function": object{"name": r.writer(), "arguments": string(args)},
	}}}, "tool_calls"
}

// writer is the tool that writes a file, by the parameters that such tools have.
func (r chatRequest) writer() string {
	for _, t := range r.Tools {
		f := t.Function
		_, path := f.Parameters.Properties["path"]
		_, content := f.Parameters.Properties["content"]
		if path && content && strings.Contains(f.Name, "write") {
			return f.Name
		}
	}
	return "no_such_tool"
}

// plain is the text of a message's content.
func plain(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	json.Unmarshal(content, &parts) // what is neither has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}
