package modeltest

import (
	"encoding/json"
	"fmt"
)

type openaiRequest struct {
	Model    string
	Messages []openaiMessage
	Tools    []struct {
		Type     string
		Function struct {
			Name       string
			Parameters map[string]any
		}
	}
}

type openaiMessage struct {
	Role       string
	Content    *string
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Type     string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (openai) check(body []byte) string {
	var req openaiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return "We could not parse the JSON body of your request: " + err.Error()
	}
	switch {
	case req.Model == "":
		return "you must provide a model parameter"
	case len(req.Messages) == 0:
		return "Invalid 'messages': empty array."
	}
	for i, tool := range req.Tools {
		if tool.Type != "function" || !validToolName.MatchString(tool.Function.Name) || tool.Function.Parameters == nil {
			return fmt.Sprintf("Invalid 'tools[%d].function.name': %q does not match the pattern, or it has no parameters.", i, tool.Function.Name)
		}
	}
	return checkOpenAIMessages(req.Messages)
}

func checkOpenAIMessages(messages []openaiMessage) string {
	open := map[string]bool{} // calls that wait for their tool message
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.ToolCallID] || m.Content == nil {
				return fmt.Sprintf("Invalid parameter: messages[%d] with role 'tool' must be a response to a preceding message with 'tool_calls'.", i)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Sprintf("messages[%d]: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", i)
		}
		if m.Content == nil && len(m.ToolCalls) == 0 {
			return fmt.Sprintf("Invalid value for 'content' of messages[%d]: expected a string, got null.", i)
		}
		for _, call := range m.ToolCalls {
			if !validToolName.MatchString(call.Function.Name) || !validCallID.MatchString(call.ID) {
				return fmt.Sprintf("Invalid name or id in messages[%d].tool_calls.", i)
			}
			if args := map[string]any(nil); json.Unmarshal([]byte(call.Function.Arguments), &args) != nil || args == nil {
				return fmt.Sprintf("messages[%d]: arguments are no object", i)
			}
			open[call.ID] = true
		}
	}
	if len(open) > 0 {
		return "messages: an assistant message with 'tool_calls' must be followed by tool messages."
	}
	return ""
}
