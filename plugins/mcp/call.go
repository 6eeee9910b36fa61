package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/tool"
)

// Call implements tool.Provider. A failure of the server is the tool's failure, with a message for the model.
func (p *provider) Call(ctx context.Context, c *tool.Call) (tool.Result, error) {
	select {
	case <-p.tried: // a server that is only starting is worth a moment; one that is down is not
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
	l, list, why := p.current()
	if l == nil {
		return tool.Failed("the MCP server is not connected: " + why), nil
	}
	var args map[string]any
	if len(c.Args) > 0 {
		d := json.NewDecoder(bytes.NewReader(c.Args))
		d.UseNumber() // a large number keeps its digits
		if err := d.Decode(&args); err != nil {
			return tool.Failed("the arguments are not a JSON object: " + err.Error()), nil
		}
	}
	switch c.Tool {
	case listResources:
		return p.listResources(ctx, l, args)
	case readResource:
		return p.readResource(ctx, l, args)
	}
	name, ok := list.names[c.Tool]
	if !ok {
		return tool.Failed("the MCP server no longer offers this tool"), nil
	}
	if args == nil {
		args = map[string]any{} // servers take "none" for a mistake
	}
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	token := fmt.Sprint("call-", p.calls.Add(1))
	params.SetProgressToken(token)
	defer l.watch(token, p.progress(c))()
	r, err := l.session.CallTool(ctx, params)
	if err != nil {
		return failed(ctx, l, err)
	}
	return p.result(r), nil
}

// progress passes the progress of a call on, not more often than the timeouts allow.
func (p *provider) progress(c *tool.Call) func(*mcp.ProgressNotificationParams) {
	var mu sync.Mutex
	var next time.Time
	return func(n *mcp.ProgressNotificationParams) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(next) {
			next = now.Add(p.timeouts.progress)
			c.Progress(n.Progress, n.Total, n.Message)
		}
	}
}

// failed returns the result of a call that failed: the model reads a refusal of the server, and the host the end of the call.
func failed(ctx context.Context, l *link, err error) (tool.Result, error) {
	refused, isRefused := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case isRefused:
		return tool.Failed(fmt.Sprintf("the MCP server refuses the call: %.2000s (code %d)", refused.Message, refused.Code)), nil
	case errors.Is(err, mcp.ErrConnectionClosed):
		return tool.Failed("the MCP server went away during the call; whether it had an effect is not known"), nil
	}
	return tool.Failed(fmt.Sprintf("the MCP server failed: %.2000s", err.Error())), nil
}
