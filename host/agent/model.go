package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
)

// modelVoice is the agent's model: it makes room in the model's window and asks it.
type modelVoice struct {
	*recorder
	*publisher
	*identity
	*bounds
	models metered
	tasks  task.Service // for what the host asks models
	// openImage opens the images of a request; nil where models are shown none.
	openImage  func(ctx context.Context, digest string) ([]byte, error)
	instructed int // see instructions; 0 before it is asked for
	// unsummarised is set where a summary could not be had: in this turn none is asked for again.
	unsummarised bool
}

// metered calls models on somebody's account; *Runner implements it.
type metered interface {
	Metered(ctx context.Context, gen *Generation, a Account, tier string, req model.Request, emit func(model.Delta)) (model.Response, []usage.Row, error)
}

func (t *turn) newModelVoice() *modelVoice {
	v := &modelVoice{recorder: t.recorder, publisher: t.publisher, identity: t.identity, bounds: t.bounds, models: t.Runner, tasks: t.hostTasks()}
	if t.cfg.Attachments != nil {
		v.openImage = t.cfg.Attachments.Image
	}
	return v
}

func (*modelVoice) repeats() bool { return false }

func (*modelVoice) close() {}

func (v *modelVoice) answer(ctx context.Context) error {
	req, err := v.fit(ctx)
	if err != nil {
		return err
	}
	answer, err := v.ask(ctx, req)
	if err != nil {
		return err
	}
	v.step(answer)
	return nil
}
