package main

import (
	"context"
	"fmt"
	"net"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialSocket is the way to a server that the host runs for us. The host starts it when we connect, and ends it when we hang up.
func (s settings) dialSocket(ctx context.Context) (mcp.Transport, func() error, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the server in its sandbox: %w", err)
	}
	end := func() error { _ = conn.Close(); return nil } // it may be closed already
	return &mcp.IOTransport{Reader: conn, Writer: conn, MaxLineLength: maxFrame}, end, nil
}
