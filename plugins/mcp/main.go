// Mcp offers the tools of one MCP server (Model Context Protocol): a program that speaks over its standard input and output, or a server
// of the streamable HTTP transport.
//
// Start with provider.go, the plugin; link.go is one connection, stdio.go and http.go the two transports, list.go what is offered, call.go
// one call. Everything that a server sends is bounded here and checked by the host, which trusts none of it.
package main

import "github.com/flynnhost/flynn/sdk/tool"

func main() { tool.Main(&provider{}) }
