package openai

import (
	"cmp"
	"strings"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// reader assembles an answer from the chunks of a stream.
type reader struct {
	*wire.Answer
	calls   map[number]*wire.Call // the call that is being written, by index
	finish  string
	refusal strings.Builder
	usage   model.Usage
	counted bool
}

func newReader(emit func(model.Delta)) *reader {
	return &reader{Answer: wire.NewAnswer(emit), calls: make(map[number]*wire.Call)}
}

func (r *reader) add(c *chunk) {
	if u := &c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		r.count(u)
	}
	for i := range c.Choices {
		if choice := &c.Choices[i]; choice.Index == 0 {
			r.addChoice(choice)
		}
	}
}

func (r *reader) addChoice(choice *choice) {
	r.Text(string(choice.Delta.Content))
	r.refusal.WriteString(string(choice.Delta.Refusal))
	for i := range choice.Delta.ToolCalls {
		r.addCall(&choice.Delta.ToolCalls[i])
	}
	if choice.FinishReason != "" {
		r.finish = strings.ToLower(string(choice.FinishReason))
	}
}

func (r *reader) addCall(delta *callDelta) {
	call := r.calls[delta.Index]
	if call == nil || isAnother(call, delta) {
		call = r.Call(string(delta.ID), string(delta.Function.Name))
		r.calls[delta.Index] = call
	} else {
		call.ID = cmp.Or(call.ID, string(delta.ID))
		call.Name = cmp.Or(call.Name, string(delta.Function.Name))
	}
	call.Args.WriteString(string(delta.Function.Arguments))
}

// isAnother reports whether a piece with the index of an old call begins a new one: some servers number
// every call 0.
func isAnother(call *wire.Call, delta *callDelta) bool {
	if delta.ID != "" && call.ID != "" {
		return string(delta.ID) != call.ID
	}
	return delta.ID == "" && delta.Function.Name != "" && call.Name != "" && call.Whole()
}

// count subtracts the cached tokens from the prompt, which includes them in this API.
func (r *reader) count(u *usage) {
	prompt := max(u.PromptTokens, 0)
	cached := min(max(u.PromptTokensDetails.CachedTokens, 0), prompt)
	written := min(max(u.PromptTokensDetails.CacheWriteTokens, 0), prompt-cached)
	r.counted = true
	r.usage = model.Usage{
		Input:      int(prompt - cached - written),
		Output:     int(max(u.CompletionTokens, 0)),
		CacheRead:  int(cached),
		CacheWrite: int(written),
	}
}

func (r *reader) response(req model.Request, names *wire.Names) model.Response {
	refused := r.refusal.Len() > 0
	if refused {
		r.Text(r.refusal.String())
	}
	message := r.Message(names)
	usage := r.usage
	if !r.counted {
		usage = wire.Estimate(req, message)
	}
	return model.Response{Message: message, Stop: r.stop(refused, message), Usage: usage}
}

// stop goes by the content of the answer more than by the server's reason: several servers say "stop" after calls.
func (r *reader) stop(refused bool, m model.Message) model.Stop {
	switch {
	case refused, r.finish == "content_filter", r.finish == "refusal":
		return model.StopRefusal
	case r.finish == "length", r.finish == "max_tokens":
		return model.StopLength
	case len(m.Calls) > 0:
		return model.StopToolCalls
	}
	return model.StopEnd
}
