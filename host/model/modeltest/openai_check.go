package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type openaiRequest struct {
	Model           string
	ReasoningEffort string `json:"reasoning_effort"`
	Messages        []openaiMessage
	Tools           []struct {
		Type     string
		Function struct {
			Name       string
			Parameters map[string]any
		}
	}
}

type openaiMessage struct {
	Role       string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Type     string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (m openaiMessage) empty() bool { return len(m.Content) == 0 || string(m.Content) == "null" }

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
	if !slices.Contains([]string{"", "minimal", "low", "medium", "high"}, req.ReasoningEffort) {
		return "Invalid value: 'reasoning_effort'."
	}
	for i, tool := range req.Tools {
		if tool.Type != "function" || !validToolName.MatchString(tool.Function.Name) || tool.Function.Parameters == nil {
			return fmt.Sprintf("Invalid 'tools[%d].function.name': %q does not match the pattern, or it has no parameters.", i, tool.Function.Name)
		}
	}
	return checkOpenAIMessages(req.Messages)
}

// checkParts checks a content that is a list of parts; only those of the user may have images.
func checkParts(m openaiMessage) string {
	var parts []struct {
		Type, Text string
		ImageURL   struct{ URL string } `json:"image_url"`
	}
	if len(m.Content) == 0 || m.Content[0] != '[' {
		return ""
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil || len(parts) == 0 {
		return "expected a list of parts"
	}
	for _, p := range parts {
		switch {
		case p.Type == "text" && p.Text != "":
		case p.Type == "image_url" && m.Role == "user":
			head, data, _ := strings.Cut(p.ImageURL.URL, ";base64,")
			if problem := checkImage(strings.TrimPrefix(head, "data:"), data); problem != "" {
				return problem
			}
		default:
			return "a part of type " + p.Type + " cannot be here"
		}
	}
	return ""
}

func checkOpenAIMessages(messages []openaiMessage) string {
	open := map[string]bool{} // calls that wait for their tool message
	for i, m := range messages {
		if problem := checkParts(m); problem != "" {
			return fmt.Sprintf("Invalid 'messages[%d].content': %s", i, problem)
		}
		if m.Role == "tool" {
			if !open[m.ToolCallID] || m.empty() {
				return fmt.Sprintf("Invalid parameter: messages[%d] with role 'tool' must be a response to a preceding message with 'tool_calls'.", i)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Sprintf("messages[%d]: an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", i)
		}
		if m.empty() && len(m.ToolCalls) == 0 {
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
