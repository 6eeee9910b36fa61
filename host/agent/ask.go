package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
)

// Counter is implemented by Models that can count the tokens of a request for the model of a tier. A count may be too high but not too
// low.
type Counter interface {
	Count(tier string, req model.Request) int
}

var _ Counter = (*model.Set)(nil)

// ask calls the agent's model with the turn and as much of the earlier conversation as fits the context window. If the provider counts
// more tokens than estimated, ask leaves out the older half of the conversation and calls once more.
func (v *modelVoice) ask(ctx context.Context, req model.Request) (model.Response, error) {
	room := v.room(req)
	before := v.history(room, len(req.Messages))
	answer, err := v.callWith(ctx, req, before)
	if len(before.messages) == 0 || !tooLong(err) {
		return v.askShorter(ctx, req, answer, err)
	}
	v.log.Warn("the conversation is too long for the model; its older half is left out", "turn", v.row.ID, "messages", len(before.messages), "error", err)
	answer, err = v.callWith(ctx, req, v.history(min(room, roughly(before.messages))/2, len(req.Messages)))
	return v.askShorter(ctx, req, answer, err)
}

// askShorter shortens a turn that is too long for the model by itself, and calls once more.
func (v *modelVoice) askShorter(ctx context.Context, req model.Request, answer model.Response, err error) (model.Response, error) {
	if !tooLong(err) {
		return answer, err
	}
	if done, failed := v.condense(ctx, req, true); !done {
		return answer, cmp.Or(failed, err)
	}
	return v.callWith(ctx, v.request(), past{})
}

func tooLong(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Kind == model.TooLong
}

// callWith makes one call with part of the earlier conversation.
func (v *modelVoice) callWith(ctx context.Context, req model.Request, before past) (model.Response, error) {
	req.Messages, req.Rough = append(before.messages, req.Messages...), req.Rough+before.size
	answer, err := v.stream(ctx, v.agent.Programs.request(req), func(d model.Delta) {
		kind := message.TextDelta
		if d.Reset {
			kind = message.TextReset
		}
		v.publish(message.Event{Kind: kind, Text: d.Text})
	})
	return v.program(answer), err
}

// stream calls the agent's model on the sender's account. The usage is committed with the step that records the answer.
func (v *modelVoice) stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	account := v.account()
	account.Step = v.state.Steps()
	answer, rows, err := v.models.Metered(ctx, v.gen, account, v.agent.Tier, req, emit)
	v.pending.Usage = append(v.pending.Usage, rows...)
	return answer, err
}

// room returns how much of the window is left for the earlier conversation, in the tokens of model.Rough.
func (v *modelVoice) room(req model.Request) int {
	rough, counted := model.Rough(req), v.counted(req)
	left := max(v.agent.Window-counted, 0)
	if counted <= rough {
		return left // a count below the estimate is not used
	}
	return int(float64(left) * float64(rough) / float64(counted))
}

// counted returns the number of tokens of a request, as far as it is known.
func (v *modelVoice) counted(req model.Request) int {
	if c, ok := v.gen.Models.(Counter); ok {
		return c.Count(v.agent.Tier, req)
	}
	return model.Rough(req)
}

// history returns the end of the earlier conversation that fits into room: first the texts, then the images. own is the number of
// images in the turn itself.
func (v *modelVoice) history(room, own int) past {
	before := v.session.context(room, own)
	if !slices.ContainsFunc(before.messages, model.Message.HasImages) {
		return before
	}
	left := latestImages(slices.Clone(before.messages), (room-roughly(before.messages))/model.ImageTokens)
	return past{left, model.Rough(model.Request{Messages: left})}
}

// past is part of the conversation before a turn.
type past struct {
	messages []model.Message
	size     int // estimated by model.Rough
}

// roughly estimates the tokens of messages without their images.
func roughly(ms []model.Message) int {
	n := 0
	for _, m := range ms {
		n += model.RoughMessage(m)
	}
	return n
}

// roughText estimates the tokens of a text.
func roughText(text string) int {
	if text == "" {
		return 0
	}
	return model.RoughMessage(model.Message{Text: text})
}
