package openai

import (
	"encoding/json"
	"math"
	"testing"
)

// Servers take liberties with the types of what they send.
func TestChunksOfOtherTypes(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want func(chunk) bool
	}{
		"a number with a fraction": {`{"usage":{"prompt_tokens":5.0}}`, func(c chunk) bool { return c.Usage.PromptTokens == 5 }},
		"a number too large":       {`{"usage":{"prompt_tokens":1e300}}`, func(c chunk) bool { return c.Usage.PromptTokens == math.MaxInt32 }},
		"a number as a string":     {`{"usage":{"prompt_tokens":"many"}}`, func(c chunk) bool { return c.Usage.PromptTokens == 0 }},
		"no usage":                 {`{"usage":null,"choices":null}`, func(c chunk) bool { return c.Usage == usage{} && c.Choices == nil }},
		"an id as a number":        {`{"choices":[{"delta":{"tool_calls":[{"id":7}]}}]}`, func(c chunk) bool { return c.Choices[0].Delta.ToolCalls[0].ID == "7" }},
		"no delta":                 {`{"choices":[{"delta":null,"finish_reason":null}]}`, func(c chunk) bool { return c.Choices[0].FinishReason == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			var c chunk
			if err := json.Unmarshal([]byte(test.data), &c); err != nil || !test.want(c) {
				t.Errorf("read as %+v (%v)", c, err)
			}
		})
	}
}
