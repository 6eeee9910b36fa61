package main

//lint:file-ignore SA1019 The protocol's newest version has given roots up; the servers of today ask for them.

import (
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newClient makes a client that tells a server in which folders to work, if there are any.
func newClient(options *mcp.ClientOptions, roots []string) *mcp.Client {
	if len(roots) > 0 {
		options.Capabilities.RootsV2 = &mcp.RootCapabilities{}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "flynn", Version: "0.1.0"}, options)
	for _, root := range roots {
		c.AddRoots(&mcp.Root{URI: (&url.URL{Scheme: "file", Path: root}).String()})
	}
	return c
}
