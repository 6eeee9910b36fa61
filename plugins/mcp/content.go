package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/tool"
)

// Bounds of a result. The host has its own, which are narrower for text.
const (
	maxText  = 400 << 10 // bytes
	maxMedia = 8 << 20   // bytes of all files together
	maxParts = 256
)

// result converts the server's response to a Result.
func (p *provider) result(r *mcp.CallToolResult) tool.Result {
	var out output
	for i, part := range r.Content {
		if i == maxParts {
			out.note("%d more parts are left out", len(r.Content)-maxParts)
			break
		}
		out.add(part)
	}
	structured, err := json.Marshal(r.StructuredContent)
	if r.StructuredContent == nil || err != nil {
		structured = nil
	}
	return tool.Result{Text: out.text.String(), IsError: r.IsError, Media: out.media, Structured: structured}
}

// output collects the parts of a result.
type output struct {
	text  strings.Builder
	media []tool.Media
	size  int
	cut   bool
}

func (o *output) add(part mcp.Content) {
	switch part := part.(type) {
	case *mcp.TextContent:
		o.say(part.Text)
	case *mcp.ImageContent:
		o.file("image", part.MIMEType, part.Data)
	case *mcp.AudioContent:
		o.file("audio", part.MIMEType, part.Data)
	case *mcp.ResourceLink:
		o.note("resource %q: %.1000s", part.Name, part.URI)
	case *mcp.EmbeddedResource:
		if part.Resource != nil {
			o.resource(part.Resource)
		}
	default:
		o.note("a part of a kind that is not known is left out")
	}
}

// resource adds the contents of a resource.
func (o *output) resource(r *mcp.ResourceContents) {
	o.note("resource %.1000s", r.URI)
	if len(r.Blob) > 0 {
		o.file("resource", r.MIMEType, r.Blob)
		return
	}
	o.say(r.Text)
}

func (o *output) say(text string) {
	if o.cut || text == "" {
		return
	}
	if o.text.Len() > 0 {
		o.text.WriteString("\n\n")
	}
	if left := maxText - o.text.Len(); len(text) > left {
		o.cut = true
		text = text[:max(left, 0)] + "\n[the rest is left out]"
	}
	o.text.WriteString(text)
}

func (o *output) note(format string, args ...any) { o.say("[" + fmt.Sprintf(format, args...) + "]") }

func (o *output) file(what, kind string, data []byte) {
	if o.size += len(data); o.size > maxMedia {
		o.note("a file of %d bytes is left out: files of one result have at most %d", len(data), maxMedia)
		return
	}
	kind = mediaType(kind)
	o.media = append(o.media, tool.Media{
		Name: fmt.Sprintf("%s-%d%s", what, len(o.media)+1, extension(kind)), Type: kind, Size: int64(len(data)), Body: bytes.NewReader(data),
	})
}

// mediaType returns the media type that a server declares for a file, if it is valid.
func mediaType(said string) string {
	kind, _, err := mime.ParseMediaType(said)
	if err != nil || len(kind) > 100 || !strings.Contains(kind, "/") {
		return "application/octet-stream"
	}
	return kind
}

// extensions are fixed, so that names do not depend on the machine.
func extension(kind string) string {
	switch kind {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "audio/wav", "audio/x-wav":
		return ".wav"
	case "audio/mpeg":
		return ".mp3"
	case "application/pdf":
		return ".pdf"
	}
	return ".bin"
}
