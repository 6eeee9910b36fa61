package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/tool"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// quick has the timeouts of tests.
func quick() timeouts {
	return timeouts{
		connect: time.Minute, list: time.Minute, settle: time.Millisecond, ping: time.Minute, wait: time.Millisecond,
		longest: 10 * time.Millisecond,
	}
}

// place is where servers of a test can be found, one after the other.
type place struct {
	mu       sync.Mutex
	server   *mcp.Server // nil: nobody is there
	sessions []*mcp.ServerSession
	lines    []net.Conn // of the sessions
	dialled  int
}

func (p *place) dial(ctx context.Context) (mcp.Transport, func() error, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialled++
	if p.server == nil {
		return nil, nil, fmt.Errorf("nobody is there")
	}
	ours, theirs := net.Pipe()
	s, err := p.server.Connect(context.WithoutCancel(ctx), &mcp.IOTransport{Reader: theirs, Writer: theirs}, nil)
	if err != nil {
		return nil, nil, err
	}
	p.sessions, p.lines = append(p.sessions, s), append(p.lines, theirs)
	return &mcp.IOTransport{Reader: ours, Writer: ours}, nil, nil
}

// put puts a server there. The one before is gone in the middle of whatever it did: a session that is closed in order waits for its calls.
func (p *place) put(s *mcp.Server) {
	p.mu.Lock()
	p.server = s
	old, lines := p.sessions, p.lines
	p.sessions, p.lines = nil, nil
	p.mu.Unlock()
	for _, l := range lines {
		_ = l.Close()
	}
	for _, s := range old {
		_ = s.Close()
	}
}

// newServer makes a server with tools made of functions.
func newServer(tools map[string]mcp.ToolHandler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1.0.0"}, nil)
	for name, f := range tools {
		addTool(s, name, f)
	}
	return s
}

func addTool(s *mcp.Server, name string, f mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, Description: "does " + name, InputSchema: map[string]any{"type": "object"}}, f)
}

func says(text string) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

// start runs the plugin with servers at a place.
func start(t *testing.T, at *place, c plugintest.Config) *plugintest.ToolHost {
	t.Helper()
	if c.Settings == nil {
		c.Settings = map[string]any{"command": "none"}
	}
	h := plugintest.StartTools(t, &provider{dial: at.dial, timeouts: quick()}, c)
	if at.server != nil {
		h.WaitStatus(tool.StateReady)
	}
	t.Cleanup(func() { at.put(nil) })
	return h
}
