package modeltest

import (
	"net/http"
	"strings"
)

// openai is the Chat Completions API.
type openai struct{}

func (openai) key(h http.Header) string {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key
}

func (openai) failure(r Reply) (int, object) {
	known := map[Failure]struct {
		status  int
		kind    string
		code    any
		message string
	}{
		BadKey:      {401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: " + Key + ". You can find your API key at https://platform.openai.com/account/api-keys."},
		NoCredit:    {429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."},
		RateLimit:   {429, "requests", "rate_limit_exceeded", "Rate limit reached for test-model on requests per min (RPM): Limit 3, Used 3, Requested 1."},
		Overload:    {503, "server_error", nil, "The engine is currently overloaded, please try again later"},
		ServerError: {500, "server_error", nil, "The server had an error while processing your request. Sorry about that!"},
		TooLong:     {400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130017 tokens."},
		BadRequest:  {400, "invalid_request_error", nil, "bad request"},
		NoModel:     {404, "invalid_request_error", "model_not_found", "The model `test-model` does not exist or you do not have access to it."},
	}[r.Fail]
	if r.Text != "" && !r.FailAfter {
		known.message = r.Text
	}
	return known.status, object{"error": object{
		"message": known.message, "type": known.kind, "param": nil, "code": known.code,
	}}
}

func (openai) usage(r Reply) object {
	return object{
		"prompt_tokens": r.Input, "completion_tokens": r.Output, "total_tokens": r.Input + r.Output,
		"prompt_tokens_details": object{"cached_tokens": r.CacheRead},
	}
}

func (openai) stop(r Reply) string {
	switch {
	case r.Stop != "":
		return r.Stop
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (f openai) whole(r Reply) object {
	message := object{"role": "assistant", "content": r.Text}
	var calls []object
	for _, call := range r.Calls {
		calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": call.Args}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return object{
		"id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion", "created": 1741569952, "model": "test-model",
		"choices": []object{{"index": 0, "message": message, "finish_reason": f.stop(r)}},
		"usage":   f.usage(r),
	}
}

func (openai) chunk(choices []object, usage any) object {
	return object{
		"id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "object": "chat.completion.chunk", "created": 1741569952,
		"model": "test-model", "system_fingerprint": "fp_44709d6fcb", "choices": choices, "usage": usage,
	}
}

func (f openai) delta(delta object, finish any) object {
	return f.chunk([]object{{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

func (f openai) stream(r Reply) rendered {
	var e events
	e.unnamed(f.delta(object{"role": "assistant", "content": ""}, nil))
	for _, part := range pieces(r.Text, r.Piece) {
		e.unnamed(f.delta(object{"content": part}, nil))
	}
	if r.Fail != None {
		_, body := f.failure(r)
		e.unnamed(body)
		return e.response()
	}
	for i, call := range r.Calls {
		f.call(&e, i, call, r.Piece)
	}
	if r.NoEnd {
		return e.response()
	}
	e.unnamed(f.delta(object{}, f.stop(r)))
	if !r.NoUsage {
		e.unnamed(f.chunk([]object{}, f.usage(r)))
	}
	if !r.NoDone {
		e.WriteString("data: [DONE]\n\n")
	}
	return e.response()
}

func (f openai) call(e *events, index int, call Call, size int) {
	begin := object{"index": index, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""}}
	e.unnamed(f.delta(object{"tool_calls": []object{begin}}, nil))
	for _, part := range pieces(call.Args, size) {
		piece := object{"index": index, "function": object{"arguments": part}}
		e.unnamed(f.delta(object{"tool_calls": []object{piece}}, nil))
	}
}
