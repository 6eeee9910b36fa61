package modeltest

import (
	"encoding/json"
	"fmt"
)

type anthropicRequest struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	System    []struct{ Text string }
	Messages  []anthropicMessage
	Tools     []struct {
		Name        string
		InputSchema struct{ Type string } `json:"input_schema"`
	}
}

type anthropicMessage struct {
	Role    string
	Content anthropicContent
}

// anthropicContent is a list of blocks, or a string for one block of text.
type anthropicContent []anthropicBlock

// UnmarshalJSON implements json.Unmarshaler.
func (c *anthropicContent) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = anthropicContent{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]anthropicBlock)(c))
}

type anthropicBlock struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
}

func (anthropic) check(body []byte) string {
	var req anthropicRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return "the body is not valid JSON: " + err.Error()
	}
	switch {
	case req.Model == "":
		return "model: field required"
	case req.MaxTokens < 1:
		return "max_tokens: must be greater than or equal to 1"
	case len(req.Messages) == 0:
		return "messages: at least one message is required"
	case req.Messages[0].Role != "user":
		return "messages: first message must use the \"user\" role"
	}
	for i, tool := range req.Tools {
		if !validToolName.MatchString(tool.Name) || tool.InputSchema.Type != "object" {
			return fmt.Sprintf("tools.%d: invalid name %q or schema type %q", i, tool.Name, tool.InputSchema.Type)
		}
	}
	return checkAnthropicMessages(req.Messages)
}

func checkAnthropicMessages(messages []anthropicMessage) string {
	open := map[string]bool{} // tool_use ids of the message before
	for i, m := range messages {
		if len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: all messages must have non-empty content", i)
		}
		uses, results := map[string]bool{}, 0
		for j, b := range m.Content {
			if problem := checkAnthropicBlock(b, open); problem != "" {
				return fmt.Sprintf("messages.%d.content.%d: %s", i, j, problem)
			}
			switch b.Type {
			case "tool_use":
				uses[b.ID] = true
			case "tool_result":
				if results++; j >= results {
					return fmt.Sprintf("messages.%d: tool_result blocks must come first", i)
				}
			}
		}
		if results != len(open) {
			return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after", i)
		}
		open = uses
	}
	if len(open) > 0 {
		return "messages: `tool_use` ids were found without `tool_result` blocks immediately after"
	}
	return ""
}

func checkAnthropicBlock(b anthropicBlock, open map[string]bool) string {
	switch b.Type {
	case "text":
		if b.Text == "" {
			return "text content blocks must be non-empty"
		}
	case "tool_use":
		var input map[string]json.RawMessage
		if json.Unmarshal(b.Input, &input) != nil || input == nil {
			return "tool_use.input: Input should be a valid dictionary"
		}
		if !validToolName.MatchString(b.Name) || !validCallID.MatchString(b.ID) {
			return "tool_use: invalid name or id"
		}
	case "tool_result":
		if !open[b.ToolUseID] {
			return fmt.Sprintf("unexpected `tool_use_id` found in `tool_result` blocks: %s", b.ToolUseID)
		}
	default:
		return "unknown type " + b.Type
	}
	return ""
}
