package anthropic

import (
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// reader assembles an answer from the events of a stream. It passes on arguments that are not JSON: the tool layer refuses them and tells
// the model why.
type reader struct {
	*wire.Answer
	calls map[number]*openCall // by content block
	// thoughts are in the order of their blocks.
	thoughts []*thought
	stop     text
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
	block           number
	text, signature strings.Builder
	data            string // of a redacted one, instead
}

func newReader(emit func(model.Delta)) *reader {
	return &reader{Answer: wire.NewAnswer(emit), calls: make(map[number]*openCall)}
}

func (r *reader) add(e *event) {
	switch e.Type {
	case "message_start":
		r.count(&e.Message.Usage)
	case "content_block_start":
		r.begin(e.Index, &e.ContentBlock)
	case "content_block_delta":
		r.continued(e.Index, &e.Delta)
	case "message_delta":
		r.stop = e.Delta.StopReason
		r.count(&e.Usage)
	case "message_stop":
		r.ended = true
	}
}

func (r *reader) begin(index number, block *startOfBlock) {
	switch block.Type {
	case "text":
		r.Text(string(block.Text))
	case "thinking":
		r.think(index, block.Thinking, block.Signature)
	case "redacted_thinking":
		r.think(index, "", "").data = strings.ToValidUTF8(string(block.Data), "\uFFFD")
	case "tool_use":
		r.calls[index] = &openCall{Call: r.Call(string(block.ID), string(block.Name)), whole: string(block.Input)}
	}
}

func (r *reader) continued(index number, delta *delta) {
	switch delta.Type {
	case "text_delta":
		r.Text(string(delta.Text))
	case "thinking_delta":
		r.think(index, delta.Thinking, "")
	case "signature_delta":
		r.think(index, "", delta.Signature)
	case "input_json_delta":
		if call := r.calls[index]; call != nil {
			call.Args.WriteString(string(delta.PartialJSON))
		}
	}
}

// think adds to the thought of a block.
func (r *reader) think(block number, piece, signature text) *thought {
	i := slices.IndexFunc(r.thoughts, func(t *thought) bool { return t.block == block })
	if i < 0 {
		i = len(r.thoughts)
		r.thoughts = append(r.thoughts, &thought{block: block})
	}
	t := r.thoughts[i]
	t.text.WriteString(string(piece))
	t.signature.WriteString(string(signature))
	return t
}

// thinking returns the thoughts that can be sent back: the API takes none without its signature.
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

// partial returns the usage of an answer that broke off, as far as it is known.
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
func (r *reader) count(u *usage) {
	for _, figure := range []struct {
		kept *int
		n    number
	}{
		{&r.usage.Input, u.InputTokens}, {&r.usage.Output, u.OutputTokens},
		{&r.usage.CacheRead, u.CacheReadInputTokens}, {&r.usage.CacheWrite, u.CacheCreationInputTokens},
	} {
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

func stop(reason text, m model.Message) model.Stop {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return model.StopLength
	case "refusal":
		return model.StopRefusal
	}
	if len(m.Calls) > 0 {
		return model.StopToolCalls
	}
	return model.StopEnd
}
