package openai

import (
	"bytes"
	"encoding/json"
	"math"
)

// chunk is what is read of one event of a stream.
type chunk struct {
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index        number `json:"index"`
	FinishReason text   `json:"finish_reason"`
	Delta        struct {
		Content   text        `json:"content"`
		Refusal   text        `json:"refusal"`
		ToolCalls []callDelta `json:"tool_calls"`
	} `json:"delta"`
}

// callDelta is a piece of a call.
type callDelta struct {
	Index    number `json:"index"`
	ID       text   `json:"id"`
	Function struct {
		Name      text `json:"name"`
		Arguments text `json:"arguments"` // a string by the book; some servers send the object itself
	} `json:"function"`
}

type usage struct {
	PromptTokens        number `json:"prompt_tokens"`
	CompletionTokens    number `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens     number `json:"cached_tokens"`
		CacheWriteTokens number `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// text is a string. Of what is something else it is the JSON.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	switch {
	case bytes.Equal(raw, []byte("null")):
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = text(raw)
	return nil
}

// number is a whole number, also one that is written as a fraction; 0 for what is none.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	var f float64
	if json.Unmarshal(raw, &f) == nil {
		*n = number(min(max(f, math.MinInt32), math.MaxInt32))
	}
	return nil
}
