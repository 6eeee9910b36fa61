package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

type resultArgs struct {
	ID     string `json:"id"`
	Offset int    `json:"offset"`
}

// resultRead pages through results of the session that were shortened for the model. The session gets their labels again.
func resultRead(r turnlog.Results) tool.Tool {
	return function[resultArgs]{
		spec: tool.Spec{
			Name:        tool.ReadResult,
			Description: "Read the whole of an earlier tool result that was shown shortened. A long one comes in pages; the last line of a page says where to go on.",
			Effect:      tool.Read,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"properties":{
				"id":{"type":"string","minLength":1,"maxLength":64},
				"offset":{"type":"integer","minimum":0,"description":"first byte; 0 if left out"}}}`),
		},
		rest: "Read on with offset.",
		run: func(ctx context.Context, call tool.Call, args resultArgs) (tool.Result, error) {
			kept, err := r.KeptResult(ctx, call.Session, args.ID)
			if errors.Is(err, store.ErrNotFound) {
				return failure("there is no result %q in this conversation, or it has made room for later ones", args.ID), nil
			}
			if err != nil {
				return tool.Result{}, fmt.Errorf("read result: %w", err)
			}
			return tool.Result{Text: page(kept.Text, args.Offset), Labels: kept.Labels}, nil
		},
	}
}

type thinkArgs struct {
	Question string `json:"question"`
}

func thinkHard() tool.Tool {
	return function[thinkArgs]{
		spec: tool.Spec{
			Name: "think.hard",
			Description: "Put one hard question to a stronger model, which has no tools and sees nothing of this conversation: write down all that it needs to know. " +
				"Slow and expensive.",
			Effect: tool.Read,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["question"],"properties":{
				"question":{"type":"string","minLength":1,"maxLength":65536}}}`),
		},
		rest: "Ask for a shorter answer.",
		run: func(ctx context.Context, call tool.Call, args thinkArgs) (tool.Result, error) {
			if call.Think == nil {
				return failure("there is no model to ask here"), nil
			}
			answer, err := call.Think(ctx, args.Question)
			if err != nil {
				return outcome(err)
			}
			return tool.Result{Text: answer}, nil
		},
	}
}
