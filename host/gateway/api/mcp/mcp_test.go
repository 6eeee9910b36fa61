package mcp

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

const execSchema = `{"type":"object","additionalProperties":false,"required":["command"],"properties":{"command":{"type":"string"},"timeout":{"type":"integer"}}}`

func TestMachineToolQuestion(t *testing.T) {
	one, two := []string{"coder"}, []string{"coder", "main"}
	for _, tt := range []struct {
		name, in    string
		agents      []string
		agent, args string
		wrong       string
	}{
		{"as it always was", `{"agent":"main","session":"s","arguments":{"command":"ls"}}`, two, "main", `{"command":"ls"}`, ""},
		{"beside the agent", `{"agent":"main","command":"ls && id"}`, two, "main", `{"command":"ls && id"}`, ""},
		{"the only agent", `{"command":"ls"}`, one, "coder", `{"command":"ls"}`, ""},
		{"the only agent, arguments apart", `{"arguments":{"command":"ls"}}`, one, "coder", `{"command":"ls"}`, ""},
		{"no agent of several", `{"command":"ls"}`, two, "", "", "agent must be one of coder, main"},
		{"an agent without a sandbox", `{"agent":"web","command":"ls"}`, one, "", "", "agent must be one of coder"},
		{"an agent that is no text", `{"agent":7,"command":"ls"}`, one, "", "", "agent is not a string"},
		{"both ways", `{"command":"ls","arguments":{"command":"id"}}`, one, "", "", "either"},
		{"nothing", ``, one, "coder", `{}`, ""},
		{"no object", `[]`, one, "", "", "the arguments"},
		{"too much", `{"command":"` + strings.Repeat("x", api.MaxText) + `"}`, one, "", "", "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machineTool{Tool: api.Tool{Name: "shell.exec", Schema: []byte(execSchema)}, agents: tt.agents}
			q, err := m.question(json.RawMessage(tt.in))
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Fatalf("error %v, want %q", err, tt.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if q.Agent != tt.agent || string(q.Call.Args) != tt.args || q.Call.Tool != "shell.exec" {
				t.Errorf("asks %s for %s, want %s for %s", q.Agent, q.Call.Args, tt.agent, tt.args)
			}
		})
	}
}

// TestRudeCommandsArrive: what stands beside the agent reaches the tool as it was written.
func TestRudeCommandsArrive(t *testing.T) {
	m := &machineTool{Tool: api.Tool{Name: "shell.exec", Schema: []byte(execSchema)}, agents: []string{"coder"}}
	for _, v := range rude.Commands() {
		in, err := jsonform.Marshal(map[string]string{"command": v.Text})
		if err != nil {
			t.Fatal(err)
		}
		q, err := m.question(in)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		var got struct{ Command string }
		if err := json.Unmarshal(q.Call.Args, &got); err != nil || got.Command != strings.ToValidUTF8(v.Text, "\ufffd") {
			t.Errorf("%s: %q came as %q (%v)", v.Name, v.Text, got.Command, err)
		}
		for _, escape := range []string{`\u0026`, `\u003c`, `\u003e`} {
			if strings.Contains(string(q.Call.Args), escape) && !strings.Contains(v.Text, escape) {
				t.Errorf("%s: %s has %s", v.Name, q.Call.Args, escape)
			}
		}
	}
}

func TestMachineToolSchema(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		agents       []string
		properties   string
		required     string
	}{
		{"one agent", execSchema, []string{"a"}, "agent command session timeout", "command"},
		{"two agents", execSchema, []string{"a", "b"}, "agent command session timeout", "agent command"},
		{"a property of ours", `{"type":"object","additionalProperties":false,"properties":{"session":{"type":"string"}}}`, []string{"a"}, "agent arguments session", "arguments"},
		{"a schema that says more", `{"type":"object","additionalProperties":false,"properties":{},"oneOf":[]}`, []string{"a"}, "agent arguments session", "arguments"},
		{"an open object", `{"type":"object","properties":{"x":{}}}`, []string{"a"}, "agent arguments session", "arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machineTool{Tool: api.Tool{Name: "x", Schema: []byte(tt.schema)}, agents: tt.agents}
			s := m.tool().InputSchema.(map[string]any)
			if got := strings.Join(slices.Sorted(maps.Keys(s["properties"].(map[string]any))), " "); got != tt.properties {
				t.Errorf("properties %q, want %q", got, tt.properties)
			}
			if got := strings.Join(s["required"].([]string), " "); got != tt.required {
				t.Errorf("required %q, want %q", got, tt.required)
			}
		})
	}
}

// noAgents is a host that has none.
type noAgents struct{ api.Host }

func (noAgents) Agents(string) []api.Agent { return nil }

// A program that calls a tool that is not there reads one sentence, and not what each transport on the way says about it.
func TestBridgeNamesAnUnknownTool(t *testing.T) {
	h := New(api.New(noAgents{}, func() string { return "id" }), "1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeClient(w, r, "editor") }))
	defer server.Close()
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Bridge(ctx, server.URL, "token", "1", in, out) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: fromBridge, Writer: toBridge}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "ask_nobody"})
	if err == nil || !strings.HasSuffix(err.Error(), `unknown tool "ask_nobody": tools/list names the tools that this token may call`) || strings.Contains(err.Error(), "transport") {
		t.Errorf("error %v", err)
	}
	_ = session.Close()
	stop()
	<-ended
}
