package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/tool"
)

// The two tools by which a model reaches the resources of a server. A server's own tool of such a name is left out.
const (
	listResources = "resources.list"
	readResource  = "resources.read"
)

// maxResources bounds one answer of resources.list.
const maxResources = 200

func resourceTools() []tool.Tool {
	return []tool.Tool{
		{
			Name:        listResources,
			Description: "Lists the resources of the MCP server: their addresses, and patterns of addresses with {variables} to fill in. Read them with resources.read.",
			Schema:      json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"cursor":{"type":"string","description":"where the last list ended"}}}`),
			Effect:      tool.Read, Idempotent: true,
		},
		{
			Name:        readResource,
			Description: "Reads one resource of the MCP server.",
			Schema:      json.RawMessage(`{"type":"object","additionalProperties":false,"required":["uri"],"properties":{"uri":{"type":"string","maxLength":4096}}}`),
			Effect:      tool.Read, Idempotent: true,
		},
	}
}

// listResources answers one page, and on the first one the templates, too.
func (p *provider) listResources(ctx context.Context, l *link, args map[string]any) (tool.Result, error) {
	cursor, _ := args["cursor"].(string)
	page, err := l.session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
	if err != nil {
		return failed(ctx, l, err)
	}
	var out output
	for i, r := range page.Resources {
		if i == maxResources {
			out.note("%d more are left out", len(page.Resources)-maxResources)
			break
		}
		if r != nil {
			out.say(entry(r.URI, r.Name, r.MIMEType, r.Description))
		}
	}
	if cursor == "" {
		templates, err := l.session.ListResourceTemplates(ctx, nil)
		if err != nil && ctx.Err() != nil {
			return failed(ctx, l, err)
		}
		if err == nil { // a server need not have any
			for _, t := range templates.ResourceTemplates[:min(len(templates.ResourceTemplates), maxResources)] {
				if t != nil {
					out.say("pattern " + entry(t.URITemplate, t.Name, t.MIMEType, t.Description))
				}
			}
		}
	}
	if page.NextCursor != "" {
		out.note("there is more; ask again with cursor %.1000q", page.NextCursor)
	}
	if out.text.Len() == 0 {
		out.note("there are no resources")
	}
	return tool.Text(out.text.String()), nil
}

// entry is one line about a resource.
func entry(address, name, kind, description string) string {
	line := fmt.Sprintf("%.1000s %.200q", address, name)
	if kind != "" {
		line += fmt.Sprintf(" (%.100s)", kind)
	}
	if description != "" {
		line += ": " + strings.Join(strings.Fields(fmt.Sprintf("%.500s", description)), " ")
	}
	return line
}

func (p *provider) readResource(ctx context.Context, l *link, args map[string]any) (tool.Result, error) {
	uri, _ := args["uri"].(string)
	if uri == "" {
		return tool.Failed("uri is missing: resources.list shows it"), nil
	}
	r, err := l.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return failed(ctx, l, err)
	}
	var out output
	for i, c := range r.Contents {
		if i == maxParts {
			out.note("%d more parts are left out", len(r.Contents)-maxParts)
			break
		}
		if c != nil {
			out.resource(c)
		}
	}
	return tool.Result{Text: out.text.String(), Media: out.media}, nil
}
