package agent

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
)

// direct makes the one call that a program asks for, with the rights of the agent that it asks, and no model in between. It is recorded
// as a model's would be, so that it is decided about, resumed and explained by the same code.
func (t *turn) direct(ctx context.Context, c message.Call) (string, error) {
	if len(t.steps.entries) == 0 {
		call := model.ToolCall{ID: "call-1", Name: c.Tool, Args: c.Args}
		t.step(turnlog.StepModel, model.Response{
			Message: model.Message{Role: model.Assistant, Calls: []model.ToolCall{call}}, Stop: model.StopToolCalls, Provider: t.row.Channel,
		})
	}
	if err := t.runCalls(ctx, 0); err != nil {
		return "", err
	}
	if len(t.steps.entries) == 1 {
		text := fmt.Sprintf("`%s` was called.", c.Tool)
		t.step(turnlog.StepModel, model.Response{
			Message: model.Message{Role: model.Assistant, Text: text}, Stop: model.StopEnd, Provider: t.row.Channel,
		})
	}
	return t.steps.entries[1].answer.Message.Text, nil
}

// Called is what came of the call that a turn of direct made, from its steps.
func Called(steps []turnlog.Step) (text string, failed bool, err error) {
	ts, err := decodeTurn(steps)
	if err != nil {
		return "", true, err
	}
	if len(ts.entries) == 0 || len(ts.entries[0].answer.Message.Calls) == 0 {
		return "", true, nil
	}
	r := ts.entries[0].result(ts.entries[0].answer.Message.Calls[0].ID)
	return r.Text, r.IsError, nil
}
