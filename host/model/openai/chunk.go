package openai

import (
	"encoding/json"

	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// text and number are read leniently.
type (
	text   = wire.Text
	number = wire.Number
)

// chunk holds the fields of a stream's event that Flynn reads.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   usage           `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// failed reports whether the event is an error.
func (c *chunk) failed() bool { return len(c.Error) > 0 && string(c.Error) != "null" }

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
		Arguments text `json:"arguments"` // officially a string; some servers send the object itself
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
