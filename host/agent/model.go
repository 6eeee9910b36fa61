package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/usage"
)

// modelVoice answers with the agent's model, and keeps the request within the model's context window.
type modelVoice struct {
	*recorder
	*publisher
	*identity
	*bounds
	models metered
	tasks  task.Service // calls models on behalf of the host
	// openImage opens the images of a request; nil if the model gets none.
	openImage  func(ctx context.Context, digest string) ([]byte, error)
	instructed int // cached by instructions; 0 if not computed
	// unsummarised is set when a summary has failed; the turn does not ask for another.
	unsummarised bool
}

// metered calls models on an account; *Runner implements it.
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
