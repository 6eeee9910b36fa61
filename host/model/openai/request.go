package openai

import (
	"encoding/base64"
	"encoding/json"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// chat is a request.
type chat struct {
	Model               string    `json:"model"`
	Messages            []message `json:"messages"`
	Tools               []tool    `json:"tools,omitempty"`
	Stream              bool      `json:"stream"`
	StreamOptions       options   `json:"stream_options"`
	MaxTokens           int       `json:"max_tokens,omitempty"`
	MaxCompletionTokens int       `json:"max_completion_tokens,omitempty"`
	PromptCacheKey      string    `json:"prompt_cache_key,omitempty"`
	ReasoningEffort     string    `json:"reasoning_effort,omitempty"`
}

type options struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string `json:"role"`
	Content    any    `json:"content,omitempty"` // a string or a list of parts; nil where an answer has only calls
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// functionType is the type of every tool and call.
const functionType = "function"

func newChat(req model.Request, official bool) chat {
	c := chat{Model: req.Model, Messages: messages(req), Stream: true, StreamOptions: options{IncludeUsage: true}}
	for _, t := range req.Tools {
		c.Tools = append(c.Tools, newTool(t))
	}
	c.limit(req, official)
	if req.Reasoning.On() {
		c.ReasoningEffort = req.Reasoning.Effort()
	}
	return c
}

// limit sets the bound on the answer under the server's name of it: OpenAI's newer models refuse
// max_tokens, and most other servers know no other name.
func (c *chat) limit(req model.Request, official bool) {
	if !official {
		c.MaxTokens = req.MaxTokens
		return
	}
	c.MaxCompletionTokens = req.MaxTokens
	if req.Session != "" {
		c.PromptCacheKey = wire.ID(req.Session)
	}
}

func newTool(t model.Tool) tool {
	f := function{Name: wire.Name(t.Name), Description: t.Description, Parameters: t.Schema}
	var object map[string]json.RawMessage
	if json.Unmarshal(t.Schema, &object) != nil || object == nil {
		f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return tool{functionType, f}
}

func messages(req model.Request) []message {
	var out []message
	if req.System != "" {
		out = append(out, message{Role: "system", Content: req.System})
	}
	for _, m := range wire.Repair(req.Messages) {
		if m.Role == model.Assistant {
			out = append(out, assistant(m))
			continue
		}
		for _, r := range m.Results {
			out = append(out, message{Role: "tool", Content: resultText(r), ToolCallID: wire.ID(r.ID)})
		}
		if images := imagesOf(m); len(images) > 0 {
			out = append(out, message{Role: "user", Content: parts(m.Text, images)})
		} else if m.Text != "" {
			out = append(out, message{Role: "user", Content: m.Text})
		}
	}
	return out
}

// imagesOf returns the images of a message and of its results: tool messages of this format cannot carry any.
func imagesOf(m model.Message) []model.Image {
	var images []model.Image
	for _, r := range m.Results {
		images = append(images, r.Images...)
	}
	return append(images, m.Images...)
}

func parts(text string, images []model.Image) []part {
	var out []part
	for _, img := range images {
		out = append(out, part{Type: "image_url", ImageURL: &imageURL{"data:" + img.Type + ";base64," + base64.StdEncoding.EncodeToString(img.Data)}})
	}
	if text == "" {
		return out
	}
	return append(out, part{Type: "text", Text: text})
}

func assistant(m model.Message) message {
	out := message{Role: "assistant"}
	if m.Text != "" {
		out.Content = m.Text
	}
	for _, made := range m.Calls {
		c := call{ID: wire.ID(made.ID), Type: functionType}
		c.Function.Name, c.Function.Arguments = wire.Name(made.Name), string(wire.Object(made.Args))
		out.ToolCalls = append(out.ToolCalls, c)
	}
	return out
}

// resultText marks an error in the text, as the format has no field for that.
func resultText(r model.ToolResult) string {
	if r.IsError {
		return "error: " + r.Text
	}
	return r.Text
}
