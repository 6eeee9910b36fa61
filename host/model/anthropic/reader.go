package anthropic

import (
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// reader puts an answer together from the events of a stream. The SDK's own accumulator fails on
// arguments that are not JSON; the tool layer is to refuse those, and the model to see why.
type reader struct {
	*wire.Answer
	calls map[int64]*openCall // by content block
	// thoughts are in the order of their blocks.
	thoughts []*thought
	stop     sdk.StopReason
	usage    model.Usage
	ended    bool
}

// openCall is a tool_use block. Some servers send its input whole at its start instead of in pieces.
type openCall struct {
	*wire.Call
	whole string
}

// thought is a block of thinking in the making.
type thought struct {
	block           int64
	text, signature strings.Builder
	data            string // of a redacted one, instead
}

func newReader(emit func(model.Delta)) *reader {
	return &reader{Answer: wire.NewAnswer(emit), calls: make(map[int64]*openCall)}
}

func (r *reader) add(event *sdk.MessageStreamEventUnion) {
	switch event.Type {
	case "message_start":
		u := event.Message.Usage
		r.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "content_block_start":
		r.begin(event.Index, &event.ContentBlock)
	case "content_block_delta":
		r.continued(event.Index, &event.Delta)
	case "message_delta":
		r.stop = event.Delta.StopReason
		u := event.Usage
		r.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "message_stop":
		r.ended = true
	}
}

func (r *reader) begin(index int64, block *sdk.ContentBlockStartEventContentBlockUnion) {
	switch block.Type {
	case "text":
		r.Text(block.Text)
	case "thinking":
		r.think(index, block.Thinking, block.Signature)
	case "redacted_thinking":
		r.think(index, "", "").data = strings.ToValidUTF8(block.Data, "\uFFFD")
	case "tool_use":
		r.calls[index] = &openCall{Call: r.Call(block.ID, block.Name), whole: block.JSON.Input.Raw()}
	}
}

func (r *reader) continued(index int64, delta *sdk.MessageStreamEventUnionDelta) {
	switch delta.Type {
	case "text_delta":
		r.Text(delta.Text)
	case "thinking_delta":
		r.think(index, delta.Thinking, "")
	case "signature_delta":
		r.think(index, "", delta.Signature)
	case "input_json_delta":
		if call := r.calls[index]; call != nil {
			call.Args.WriteString(delta.PartialJSON)
		}
	}
}

// think adds to the thought of a block.
func (r *reader) think(block int64, text, signature string) *thought {
	i := slices.IndexFunc(r.thoughts, func(t *thought) bool { return t.block == block })
	if i < 0 {
		i = len(r.thoughts)
		r.thoughts = append(r.thoughts, &thought{block: block})
	}
	t := r.thoughts[i]
	t.text.WriteString(text)
	t.signature.WriteString(signature)
	return t
}

// thinking is what can be sent back: the API takes no thought without its signature.
func (r *reader) thinking(name string) []model.Thinking {
	var out []model.Thinking
	for _, t := range r.thoughts {
		if t.data == "" && t.signature.Len() == 0 {
			continue
		}
		out = append(out, model.Thinking{
			Model: name, Text: strings.ToValidUTF8(t.text.String(), "\uFFFD"), Signature: strings.ToValidUTF8(t.signature.String(), "\uFFFD"), Data: t.data,
		})
	}
	return out
}

// partial is what an answer that broke off has cost, as far as it was told.
func (r *reader) partial() model.Response {
	thought := 0
	for _, t := range r.thoughts {
		thought += t.text.Len()
	}
	u := r.usage
	u.Output = max(u.Output, (thought+2)/3)
	return model.Response{Usage: u}
}

// count keeps the latest figures. They are cumulative, and a later event may leave some out.
func (r *reader) count(input, output, read, write int64) {
	for _, figure := range []struct {
		kept *int
		n    int64
	}{{&r.usage.Input, input}, {&r.usage.Output, output}, {&r.usage.CacheRead, read}, {&r.usage.CacheWrite, write}} {
		if figure.n > 0 {
			*figure.kept = int(figure.n)
		}
	}
}

func (r *reader) response(req model.Request, names *wire.Names) model.Response {
	for _, call := range r.calls {
		if call.Args.Len() == 0 {
			call.Args.WriteString(call.whole)
		}
	}
	message := r.Message(names)
	message.Thinking = r.thinking(req.Model)
	usage := r.usage
	if usage == (model.Usage{}) {
		usage = wire.Estimate(req, message)
	}
	return model.Response{Message: message, Stop: stop(r.stop, message), Usage: usage}
}

func stop(reason sdk.StopReason, m model.Message) model.Stop {
	switch reason {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.StopLength
	case sdk.StopReasonRefusal:
		return model.StopRefusal
	}
	if len(m.Calls) > 0 {
		return model.StopToolCalls
	}
	return model.StopEnd
}
