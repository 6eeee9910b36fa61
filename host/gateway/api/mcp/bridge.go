package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bridge offers the tools of a running Flynn at endpoint to a client over in and out, until ctx or the client ends.
func Bridge(ctx context.Context, endpoint, token, version string, in io.ReadCloser, out io.WriteCloser) error {
	us := &mcp.Implementation{Name: "flynn", Version: version}
	var session atomic.Pointer[mcp.ServerSession] // set before the first call is forwarded
	client := mcp.NewClient(us, &mcp.ClientOptions{
		ProgressNotificationHandler: func(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
			if s := session.Load(); s != nil {
				_ = s.NotifyProgress(ctx, r.Params) // the result of the call does not depend on it
			}
		},
	})
	host, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{
			Transport:     bearer{token, &http.Transport{}}, // no proxy: it is on this machine
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return fmt.Errorf("reach the running flynn at %s: %w", endpoint, err)
	}
	defer host.Close()
	server := mcp.NewServer(us, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.ListToolsRequest:
				return host.ListTools(ctx, r.Params)
			case *mcp.CallToolRequest:
				session.Store(r.Session)
				res, err := host.CallTool(ctx, &mcp.CallToolParams{Meta: r.Params.Meta, Name: r.Params.Name, Arguments: r.Params.Arguments})
				if err != nil {
					return nil, inWords(ctx, host, r.Params.Name, err)
				}
				return res, nil
			}
			return next(ctx, method, req)
		}
	})
	return server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
}

// inWords is the error of a call for the client, without the words of the transports in between.
func inWords(ctx context.Context, host *mcp.ClientSession, tool string, err error) error {
	list, wrong := host.ListTools(ctx, nil)
	if wrong != nil || slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == tool }) {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q: tools/list names the tools that this token may call", tool)}
}

// bearer adds the token to requests. They go only to one endpoint: redirects are not followed.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}
