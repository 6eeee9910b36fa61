// Package mcp lets clients ask agents over the Model Context Protocol: each agent is a tool, and so is each tool of an agent's sandbox.
//
//	ask_AGENT {message, session?, directory?}           asks an agent; a directory only if the agent accepts one
//	sandbox_TOOL {agent?, session?, ...}                calls a tool in the sandbox of an agent's session, with the tool's arguments
//
// Start with Handler. Results name their session, which a later call can continue. While a turn runs, progress is reported to clients that
// ask for it. The official SDK speaks the protocol, in its stateless mode: nothing about a client is kept between requests.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

// Handler answers clients.
type Handler struct {
	service *api.Service
	version string
	http    http.Handler
}

// maxBody bounds a request, in bytes.
const maxBody = 512 << 10

// New returns a handler.
func New(service *api.Service, version string) *Handler {
	h := &Handler{service: service, version: version}
	h.http = mcp.NewStreamableHTTPHandler(h.server, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody,
		// The gateway has checked the names already, those of the configured origins among them.
		DisableLocalhostProtection: true,
	})
	return h
}

type clientKey struct{}

// ServeClient answers a request of a client whose token was checked.
func (h *Handler) ServeClient(w http.ResponseWriter, r *http.Request, client string) {
	rc := http.NewResponseController(w)
	// A turn takes as long as its own limits allow, including the wait for approvals.
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	h.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, client)))
}

// server has the tools that the client of a request may call.
func (h *Handler) server(r *http.Request) *mcp.Server {
	client, ok := r.Context().Value(clientKey{}).(string)
	if !ok { // the handler was mounted without a check of the token
		return nil
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "flynn", Version: h.version}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	machine := map[string]*machineTool{}
	for _, a := range h.service.Agents(client) {
		s.AddTool(askTool(a), h.ask(client, a))
		for _, t := range a.Machine {
			m := machine[t.Name]
			if m == nil {
				m = &machineTool{Tool: t}
				machine[t.Name] = m
			}
			m.agents = append(m.agents, a.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(machine)) {
		s.AddTool(machine[name].tool(), h.call(client, machine[name]))
	}
	return s
}

// reply is the structured part of a result.
type reply struct {
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Turn    string `json:"turn,omitempty"`
}

const sessionHelp = "names a conversation to continue, as an earlier result gave it; leave it out for a new one"

const directoryHelp = "the absolute path of the folder in which a new conversation works; later messages of the session may leave it out"

func askTool(agent api.Agent) *mcp.Tool {
	properties := map[string]any{
		"message": map[string]any{"type": "string", "minLength": 1},
		"session": map[string]any{"type": "string", "description": sessionHelp},
	}
	if agent.Folders {
		properties["directory"] = map[string]any{"type": "string", "description": directoryHelp}
	}
	return &mcp.Tool{
		Name:        "ask_" + agent.Name,
		Description: fmt.Sprintf("Asks the agent %q of this Flynn. The agent has its own model, tools and memory of the session.", agent.Name),
		InputSchema: object(properties, "message"),
	}
}

func object(properties map[string]any, required ...string) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (h *Handler) ask(client string, agent api.Agent) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct {
			Message   string `json:"message"`
			Session   string `json:"session"`
			Directory string `json:"directory"`
		}
		switch err := json.Unmarshal(req.Params.Arguments, &in); {
		case err != nil:
			return refused("the arguments: " + err.Error()), nil
		case in.Directory != "" && !agent.Folders:
			return refused(fmt.Sprintf("agent %q takes no directory", agent.Name)), nil
		case in.Directory != "" && (!filepath.IsAbs(in.Directory) || filepath.Clean(in.Directory) != in.Directory):
			return refused(fmt.Sprintf("directory %q must be a clean absolute path", in.Directory)), nil
		}
		return h.put(ctx, req, api.Question{Client: client, Agent: agent.Name, Session: in.Session, Folder: in.Directory, Text: in.Message})
	}
}

// machineTool is a tool in the sandboxes of some agents.
type machineTool struct {
	api.Tool
	agents []string
}

func (m *machineTool) tool() *mcp.Tool {
	return &mcp.Tool{
		Name: "sandbox_" + strings.ReplaceAll(m.Name, ".", "_"), Description: "In the sandbox of an agent's session: " + m.Description,
		InputSchema: m.schema(),
	}
}

// schema is the tool's schema with the properties agent and session. If the tool has properties of these names itself, its arguments go
// into the property arguments.
func (m *machineTool) schema() map[string]any {
	own := map[string]any{
		"agent":   map[string]any{"type": "string", "enum": m.agents, "description": "the agent whose sandbox to use; may be left out if there is only one"},
		"session": map[string]any{"type": "string", "description": sessionHelp},
	}
	var required []string
	if len(m.agents) > 1 {
		required = append(required, "agent")
	}
	flat, ok := m.flat()
	if !ok {
		own["arguments"] = json.RawMessage(m.Schema)
		return object(own, append(required, "arguments")...)
	}
	properties := maps.Clone(flat.Properties)
	for name, schema := range own {
		properties[name] = schema
	}
	return object(properties, append(required, flat.Required...)...)
}

// flatSchema is the schema of an object that can take further properties.
type flatSchema struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required"`
	Additional *bool          `json:"additionalProperties"`
}

// ours are the properties that are added to a tool's own.
var ours = []string{"agent", "session", "arguments"}

func (m *machineTool) flat() (flatSchema, bool) {
	var f flatSchema
	dec := json.NewDecoder(bytes.NewReader(m.Schema))
	dec.DisallowUnknownFields() // another keyword may be about the object as a whole
	if dec.Decode(&f) != nil || f.Type != "object" || f.Additional == nil || *f.Additional {
		return f, false
	}
	for _, name := range ours {
		if _, taken := f.Properties[name]; taken {
			return f, false
		}
	}
	return f, true
}

func (h *Handler) call(client string, m *machineTool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q, err := m.question(req.Params.Arguments)
		if err != nil {
			return refused(err.Error()), nil
		}
		q.Client = client
		return h.put(ctx, req, q)
	}
}

// question reads the arguments of a call: the tool's own beside agent and session or, as in earlier releases, apart from them in
// "arguments". The tool's own schema is checked when the tool runs.
func (m *machineTool) question(raw json.RawMessage) (api.Question, error) {
	given := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return api.Question{}, fmt.Errorf("the arguments: %w", err)
		}
	}
	q := api.Question{Text: "Call of " + m.Name}
	for name, into := range map[string]*string{"agent": &q.Agent, "session": &q.Session} {
		if text, ok := given[name]; ok {
			if err := json.Unmarshal(text, into); err != nil {
				return q, fmt.Errorf("the arguments: %s is not a string", name)
			}
			delete(given, name)
		}
	}
	if q.Agent == "" && len(m.agents) == 1 {
		q.Agent = m.agents[0]
	}
	if !slices.Contains(m.agents, q.Agent) {
		return q, fmt.Errorf("agent must be one of %s", strings.Join(m.agents, ", "))
	}
	args, apart := given["arguments"]
	switch {
	case apart && len(given) > 1:
		return q, errors.New("give the tool's arguments either beside agent and session, or in arguments")
	case !apart:
		var err error
		if args, err = jsonform.Marshal(given); err != nil {
			return q, fmt.Errorf("the arguments: %w", err)
		}
	}
	if len(args) > api.MaxText {
		return q, fmt.Errorf("arguments have more than %d bytes", api.MaxText)
	}
	q.Call = &message.Call{Tool: m.Name, Args: args}
	return q, nil
}

// put asks a question and reports progress.
func (h *Handler) put(ctx context.Context, req *mcp.CallToolRequest, q api.Question) (*mcp.CallToolResult, error) {
	if q.Channel = api.MCP; q.Session == "" {
		q.Session = h.service.NewSession()
	}
	if token := req.Params.GetProgressToken(); token != nil {
		q.Watch = (&progress{ctx: ctx, session: req.Session, token: token}).event
	}
	s, err := h.service.Ask(ctx, q)
	if err != nil {
		return refused(err.Error()), nil
	}
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: s.Text}}, IsError: s.Failed,
		StructuredContent: reply{Session: q.Session, Agent: s.Agent, Turn: s.Turn},
	}, nil
}

func refused(why string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: why}}, IsError: true}
}

// progress reports the progress of a turn to a client.
type progress struct {
	ctx     context.Context
	session *mcp.ServerSession
	token   any
	count   float64
	told    time.Time
}

// textEvery is how often a client is told that the agent is writing.
const textEvery = time.Second

func (p *progress) event(e message.Event) {
	var text string
	switch e.Kind {
	case message.TurnStarted:
		text = "agent " + e.Agent + " has started"
	case message.ToolCall:
		text = "calls " + e.Tool
	case message.ToolApproval:
		text = fmt.Sprintf("%s waits for the approval %s", e.Tool, e.Approval)
	case message.ToolResult:
		text = e.Tool + " has its result"
	case message.TextDelta:
		if time.Since(p.told) < textEvery {
			return
		}
		text = "writes"
	default:
		return
	}
	p.count++
	p.told = time.Now()
	// The result does not depend on it.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: p.count, Message: text})
}
