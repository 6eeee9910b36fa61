package main

//lint:file-ignore SA1019 The protocol's newest version has given these up; the servers of today may try.

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestServerCanAskNothingOfUs(t *testing.T) {
	var at place
	at.server = newServer(map[string]mcp.ToolHandler{"asks": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, sampling := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
		_, elicit := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "password?"})
		return says(fmt.Sprintf("sampling refused %t, elicitation refused %t", sampling != nil, elicit != nil))(ctx, r)
	}})
	h := start(t, &at, plugintest.Config{Settings: map[string]any{"command": "none", "roots": []string{"/srv/a b"}}})
	out, err := h.Call("asks", nil)
	if err != nil || out.Text != "sampling refused true, elicitation refused true" {
		t.Errorf("got %+v, %v", out, err)
	}
	at.mu.Lock()
	session := at.sessions[0]
	at.mu.Unlock()
	if c := session.InitializeParams().Capabilities; c.Sampling != nil || c.Elicitation != nil || c.RootsV2 == nil {
		t.Errorf("the server got the capabilities %+v", c)
	}
}
