package agent

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
)

// direct makes the one tool call that a client asks for, with the rights of the agent and without a model. It is recorded like a
// model's call, so that the same code decides about it, resumes it and explains it.
type direct struct {
	*recorder
	call message.Call
}

func (direct) repeats() bool { return true }

func (direct) close() {}

func (d direct) answer(context.Context) error {
	r := model.Response{Message: model.Message{Role: model.Assistant}, Stop: model.StopToolCalls, Provider: d.row.Channel}
	if len(d.state.Answers) == 0 {
		r.Message.Calls = []model.ToolCall{{ID: "call-1", Name: d.call.Tool, Args: d.call.Args}}
	} else {
		r.Message.Text, r.Stop = fmt.Sprintf("`%s` was called.", d.call.Tool), model.StopEnd
	}
	d.step(r)
	return nil
}
