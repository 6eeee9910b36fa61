package agent

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
)

// direct makes the one call that a client asks for, with the rights of the agent that it asks, and no model in between. It is recorded
// as a model's would be, so that it is decided about, resumed and explained by the same code.
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
