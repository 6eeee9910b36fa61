package anthropic

import (
	"encoding/base64"
	"encoding/json"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// call is a request.
type call struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Stream       bool          `json:"stream"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	System       []block       `json:"system,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	Messages     []message     `json:"messages"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block; its type decides which fields are set.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Source       *source         `json:"source,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	IsError      *bool           `json:"is_error,omitempty"`
	Content      []block         `json:"content,omitempty"`
	Thinking     *string         `json:"thinking,omitempty"` // a pointer: a thought may be an empty text with a signature
	Signature    string          `json:"signature,omitempty"`
	Data         string          `json:"data,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// ephemeral marks the end of a prefix that the provider is to cache.
func ephemeral() *cacheControl { return &cacheControl{"ephemeral"} }

const (
	user      = "user"
	assistant = "assistant"
)

func newCall(req model.Request) call {
	c := call{Model: req.Model, MaxTokens: req.MaxTokens, Stream: true, Messages: messages(req)}
	c.think(req)
	if req.System != "" {
		c.System = []block{{Type: "text", Text: req.System, CacheControl: ephemeral()}}
	}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, newTool(t))
	}
	if n := len(c.Tools); n > 0 {
		c.Tools[n-1].CacheControl = ephemeral()
	}
	return c
}

func newTool(t model.Tool) tool {
	out := tool{Name: wire.Name(t.Name), Description: t.Description, InputSchema: json.RawMessage(`{"type":"object"}`)}
	if len(t.Schema) > 0 {
		out.InputSchema = wire.Object(t.Schema)
	}
	return out
}

func messages(req model.Request) []message {
	var out []message
	list := wire.Repair(req.Messages)
	loop := loopOf(list)
	for i, m := range list {
		if m.Role == model.Assistant {
			if i < loop {
				m.Thinking = nil
			}
			out = append(out, message{assistant, assistantBlocks(m, req.Model)})
			continue
		}
		out = append(out, message{user, userBlocks(m)})
	}
	markForCache(out)
	return out
}

func assistantBlocks(m model.Message, name string) []block {
	blocks := thinkingBlocks(m.Thinking, name)
	if m.Text != "" {
		blocks = append(blocks, textBlock(m.Text))
	}
	for _, c := range m.Calls {
		blocks = append(blocks, block{Type: "tool_use", ID: wire.ID(c.ID), Name: wire.Name(c.Name), Input: wire.Object(c.Args)})
	}
	return blocks
}

// userBlocks puts results first: the API refuses them after text.
func userBlocks(m model.Message) []block {
	var blocks []block
	for _, r := range m.Results {
		blocks = append(blocks, resultBlock(r))
	}
	for _, img := range m.Images {
		blocks = append(blocks, imageBlock(img))
	}
	if m.Text != "" {
		blocks = append(blocks, textBlock(m.Text))
	}
	return blocks
}

func textBlock(text string) block { return block{Type: "text", Text: text} }

func imageBlock(img model.Image) block {
	return block{Type: "image", Source: &source{"base64", img.Type, base64.StdEncoding.EncodeToString(img.Data)}}
}

// resultBlock leaves the content out when there is no text: the API refuses empty text blocks.
func resultBlock(r model.ToolResult) block {
	out := block{Type: "tool_result", ToolUseID: wire.ID(r.ID), IsError: &r.IsError}
	if r.Text != "" {
		out.Content = []block{textBlock(r.Text)}
	}
	for _, img := range r.Images {
		out.Content = append(out.Content, imageBlock(img))
	}
	return out
}

// markForCache marks the end of the transcript, so that the next call of the turn reads it from the provider's cache, and the end of what
// the previous call sent: the provider looks for a cached prefix no more than some twenty blocks back.
func markForCache(out []message) {
	marks := 2
	for i := len(out) - 1; i >= 0 && marks > 0; i-- {
		if out[i].Role == user {
			out[i].Content[len(out[i].Content)-1].CacheControl = ephemeral()
			marks--
		}
	}
}
