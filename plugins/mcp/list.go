package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/tool"
)

// listing is what a server offers.
type listing struct {
	tools []tool.Tool
	names map[string]string // the server's name, by ours; the two tools for resources have none
}

func (l listing) equal(other listing) bool { return reflect.DeepEqual(l, other) }

// Bounds of a list.
const (
	maxTools       = 512 - 2 // leaves room for the two tools for resources
	maxPages       = 64
	maxDescription = 4 << 10  // bytes
	maxSchema      = 64 << 10 // bytes
	maxName        = 64       // bytes
)

// read asks a server for its tools and leaves out malformed ones.
func (p *provider) read(ctx context.Context, l *link) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeouts.list)
	defer cancel()
	list := listing{names: map[string]string{}}
	capabilities := l.session.InitializeResult().Capabilities
	if capabilities == nil {
		return list, nil
	}
	if capabilities.Resources != nil && p.settings.Resources {
		list.tools = resourceTools()
	}
	if capabilities.Tools == nil {
		return list, nil
	}
	found, err := allTools(ctx, l.session, p.log)
	if err != nil {
		return list, fmt.Errorf("list the tools: %w", err)
	}
	slices.SortStableFunc(found, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range found {
		if err := list.add(t); err != nil {
			p.log.Warn("left out a tool", "tool", fmt.Sprintf("%.80q", t.Name), "why", err.Error())
		}
	}
	return list, nil
}

// allTools reads the pages of the list, up to a limit.
func allTools(ctx context.Context, s *mcp.ClientSession, log *slog.Logger) ([]*mcp.Tool, error) {
	var all []*mcp.Tool
	params := &mcp.ListToolsParams{}
	for range maxPages {
		page, err := s.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			if t != nil {
				all = append(all, t)
			}
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" && len(all) <= maxTools {
			return all, nil
		}
		if len(all) > maxTools {
			break
		}
	}
	log.Warn("the list of tools is cut", "tools", maxTools, "pages", maxPages)
	return all[:min(len(all), maxTools)], nil
}

// add takes one tool into the list, under a name that the host can use.
func (l *listing) add(t *mcp.Tool) error {
	name := usable(t.Name)
	if slices.ContainsFunc(l.tools, func(other tool.Tool) bool { return other.Name == name }) {
		return fmt.Errorf("there is another one with this name")
	}
	schema, err := object(t.InputSchema)
	if err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	output, err := object(t.OutputSchema)
	if err != nil {
		return fmt.Errorf("the schema of its result: %w", err)
	}
	words := t.Description
	if t.Title != "" && t.Title != t.Name {
		words = t.Title + "\n" + words
	}
	l.tools = append(l.tools, tool.Tool{
		Name: name, Description: words[:min(len(words), maxDescription)], Schema: schema, Output: output,
		Effect: effect(t.Annotations), Idempotent: t.Annotations != nil && t.Annotations.IdempotentHint,
	})
	l.names[name] = t.Name
	return nil
}

// effect returns the effect that a server declares for a tool, for people.
func effect(a *mcp.ToolAnnotations) tool.Effect {
	switch {
	case a == nil:
		return tool.EffectUnknown
	case a.ReadOnlyHint:
		return tool.Read
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		return tool.Write
	}
	return tool.Destructive
}

// object encodes a schema, which has to be a JSON object within bounds.
func object(schema any) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	if _, ok := schema.(map[string]any); !ok {
		return nil, fmt.Errorf("it is not a JSON object")
	}
	text, err := json.Marshal(schema)
	if err == nil && len(text) > maxSchema {
		err = fmt.Errorf("it has %d bytes, at most %d", len(text), maxSchema)
	}
	return text, err
}

// usable returns a name in the form that the host takes. A name that was changed for that ends with a digest, so that "a/b" is never taken for
// "a_b".
func usable(name string) string {
	word := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return '_'
	}, name)
	if word == name && len(name) <= maxName && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%s_%x", word[:min(len(word), maxName-9)], sum[:4])
}
