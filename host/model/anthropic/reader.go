package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// reader puts an answer together from the events of a stream. The SDK's own accumulator fails on
// arguments that are not JSON; the tool layer is to refuse those, and the model to see why.
type reader struct {
	*wire.Answer
	calls map[int64]*openCall // by content block
	stop  sdk.StopReason
	usage model.Usage
	ended bool
}

// openCall is a tool_use block. Some servers send its input whole at its start instead of in pieces.
type openCall struct {
	*wire.Call
	whole string
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
	case "tool_use":
		r.calls[index] = &openCall{Call: r.Call(block.ID, block.Name), whole: block.JSON.Input.Raw()}
	}
}

func (r *reader) continued(index int64, delta *sdk.MessageStreamEventUnionDelta) {
	switch delta.Type {
	case "text_delta":
		r.Text(delta.Text)
	case "input_json_delta":
		if call := r.calls[index]; call != nil {
			call.Args.WriteString(delta.PartialJSON)
		}
	}
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
