// Mcp offers the tools of one MCP server (Model Context Protocol): a program that speaks over its standard input and output, or a server
// of the streamable HTTP transport.
//
// Start with provider.go, the plugin; link.go is one connection, stdio.go and http.go the two transports, list.go what is offered, call.go
// one call. Whatever a server says is bounded here and judged by the host: nothing of it is believed.
package main

import "github.com/flynnhost/flynn/sdk/tool"

func main() { tool.Main(&provider{}) }
