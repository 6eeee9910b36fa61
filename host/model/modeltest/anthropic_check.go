package modeltest

import (
	"encoding/json"
	"fmt"
)

type anthropicRequest struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	System    []struct{ Text string }
	Thinking  *struct {
		Type         string
		BudgetTokens int `json:"budget_tokens"`
	}
	OutputConfig struct{ Effort string } `json:"output_config"`
	Messages     []anthropicMessage
	Tools        []struct {
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
	Content              []anthropicBlock
	Source               struct {
		Type, Data string
		MediaType  string `json:"media_type"`
	}
	Thinking, Signature, Data string
	CacheControl              json.RawMessage `json:"cache_control"`
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
	if problem := checkThinking(req); problem != "" {
		return problem
	}
	return checkAnthropicMessages(req.Messages)
}

// checkThinking checks the rules of extended thinking: a budget below max_tokens, and thoughts before the calls of the current tool
// loop.
func checkThinking(req anthropicRequest) string {
	switch {
	case req.Thinking == nil || req.Thinking.Type == "adaptive" || req.Thinking.Type == "disabled":
		return ""
	case req.Thinking.Type != "enabled" || req.Thinking.BudgetTokens < 1024 || req.Thinking.BudgetTokens >= req.MaxTokens:
		return "thinking: `max_tokens` must be greater than `thinking.budget_tokens`, which is at least 1024"
	}
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := req.Messages[i]
		if m.Role == "user" && (len(m.Content) == 0 || m.Content[0].Type != "tool_result") {
			break
		}
		if first := m.Content[0].Type; m.Role == "assistant" && first != "thinking" && first != "redacted_thinking" {
			return fmt.Sprintf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`", i, first)
		}
	}
	return ""
}

func checkAnthropicMessages(messages []anthropicMessage) string {
	open := map[string]bool{} // tool_use ids of the message before
	marks := 0
	for i, m := range messages {
		if len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: all messages must have non-empty content", i)
		}
		uses, results := map[string]bool{}, 0
		for j, b := range m.Content {
			if problem := checkAnthropicBlock(b, open); problem != "" {
				return fmt.Sprintf("messages.%d.content.%d: %s", i, j, problem)
			}
			if len(b.CacheControl) > 0 {
				marks++
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
	if marks > 2 { // besides those of system and tools
		return "A maximum of 4 blocks with cache_control may be provided."
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
		for _, inner := range b.Content {
			if problem := checkAnthropicBlock(inner, nil); problem != "" {
				return problem
			}
		}
	case "image":
		if b.Source.Type != "base64" {
			return "image.source.type: Input should be 'base64'"
		}
		return checkImage(b.Source.MediaType, b.Source.Data)
	case "thinking":
		if b.Signature != Signature(b.Thinking) {
			return "Invalid `signature` in `thinking` block"
		}
	case "redacted_thinking":
		if b.Data == "" {
			return "redacted_thinking.data: field required"
		}
	default:
		return "unknown type " + b.Type
	}
	return ""
}
