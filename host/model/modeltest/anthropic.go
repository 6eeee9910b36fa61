package modeltest

import (
	"encoding/json"
	"net/http"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) key(h http.Header) string { return h.Get("X-Api-Key") }

func (anthropic) failure(r Reply) (int, object) {
	known := map[Failure]struct {
		status        int
		kind, message string
	}{
		BadKey:      {401, "authentication_error", "invalid x-api-key"},
		NoCredit:    {400, "billing_error", "Your credit balance is too low to access the Anthropic API."},
		RateLimit:   {429, "rate_limit_error", "This request would exceed your organization's rate limit."},
		Overload:    {529, "overloaded_error", "Overloaded"},
		ServerError: {500, "api_error", "Internal server error"},
		TooLong:     {400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"},
		BadRequest:  {400, "invalid_request_error", "bad request"},
		NoModel:     {404, "not_found_error", "model: test-model"},
	}[r.Fail]
	if r.Text != "" && !r.FailAfter {
		known.message = r.Text
	}
	return known.status, object{
		"type":       "error",
		"error":      object{"type": known.kind, "message": known.message},
		"request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
	}
}

func (f anthropic) message(r Reply, content []object) object {
	return object{
		"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "model": "test-model",
		"content": content, "stop_reason": nil, "stop_sequence": nil, "usage": f.usage(r),
	}
}

func (anthropic) usage(r Reply) object {
	if r.NoUsage {
		return object{}
	}
	return object{
		"input_tokens": r.Input, "output_tokens": r.Output,
		"cache_read_input_tokens": r.CacheRead, "cache_creation_input_tokens": 0,
	}
}

func (anthropic) stop(r Reply) string {
	switch {
	case r.Stop != "":
		return r.Stop
	case len(r.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (f anthropic) whole(r Reply) object {
	content := []object{}
	if r.Thinking != "" {
		content = append(content, object{"type": "thinking", "thinking": r.Thinking, "signature": Signature(r.Thinking)})
	}
	if r.Text != "" {
		content = append(content, object{"type": "text", "text": r.Text})
	}
	for _, call := range r.Calls {
		content = append(content, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Args)})
	}
	m := f.message(r, content)
	m["stop_reason"] = f.stop(r)
	return m
}

func (f anthropic) stream(r Reply) rendered {
	var e events
	e.named("message_start", object{"type": "message_start", "message": f.message(r, []object{})})
	e.named("ping", object{"type": "ping"})
	index := 0
	block := func(start object, deltas ...object) {
		e.named("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		for _, delta := range deltas {
			e.named("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": delta})
		}
		e.named("content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	if r.Thinking != "" {
		thoughts := deltas("thinking_delta", "thinking", pieces(r.Thinking, r.Piece))
		block(object{"type": "thinking", "thinking": "", "signature": ""},
			append(thoughts, object{"type": "signature_delta", "signature": Signature(r.Thinking)})...)
	}
	if r.Redacted != "" {
		block(object{"type": "redacted_thinking", "data": r.Redacted})
	}
	if r.Text != "" {
		block(object{"type": "text", "text": ""}, deltas("text_delta", "text", pieces(r.Text, r.Piece))...)
	}
	if r.Fail != None {
		_, body := f.failure(r)
		e.named("error", body)
		return e.response()
	}
	for _, call := range r.Calls {
		args := append([]string{""}, pieces(call.Args, r.Piece)...)
		block(object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{}}, deltas("input_json_delta", "partial_json", args)...)
	}
	if !r.NoEnd {
		delta := object{"stop_reason": f.stop(r), "stop_sequence": nil}
		e.named("message_delta", object{"type": "message_delta", "delta": delta, "usage": f.usage(r)})
		e.named("message_stop", object{"type": "message_stop"})
	}
	return e.response()
}

// deltas are the pieces of a content block.
func deltas(kind, field string, parts []string) []object {
	var out []object
	for _, part := range parts {
		out = append(out, object{"type": kind, field: part})
	}
	return out
}
