package anthropic

import (
	"encoding/json"

	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// text and number are read leniently.
type (
	text   = wire.Text
	number = wire.Number
)

// event holds the fields of a stream's event that Flynn reads; its type decides which of them are set.
type event struct {
	Type    text   `json:"type"`
	Index   number `json:"index"` // of the content block
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock startOfBlock `json:"content_block"`
	Delta        delta        `json:"delta"`
	Usage        usage        `json:"usage"`
}

// startOfBlock is a content block as it begins.
type startOfBlock struct {
	Type      text            `json:"type"`
	Text      text            `json:"text"`
	Thinking  text            `json:"thinking"`
	Signature text            `json:"signature"`
	Data      text            `json:"data"`
	ID        text            `json:"id"`
	Name      text            `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// delta is a piece of a content block, or the usage of the message at its end.
type delta struct {
	Type        text `json:"type"`
	Text        text `json:"text"`
	Thinking    text `json:"thinking"`
	Signature   text `json:"signature"`
	PartialJSON text `json:"partial_json"`
	StopReason  text `json:"stop_reason"`
}

type usage struct {
	InputTokens              number `json:"input_tokens"`
	OutputTokens             number `json:"output_tokens"`
	CacheReadInputTokens     number `json:"cache_read_input_tokens"`
	CacheCreationInputTokens number `json:"cache_creation_input_tokens"`
}
