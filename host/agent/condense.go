package agent

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/model"
)

// One turn alone may outgrow the window. Its first steps then give way to a summary, as older turns do: what the person said, the rules,
// which are no part of the conversation, and the last steps stay whole, and a call stays with its result. The steps themselves
// stay in the store, and with them their labels.

// fit makes room for a call of the model where the window fills: first the turns before give way, then the turn's own first steps. It
// returns what the model is asked, without the turns before.
func (v *modelVoice) fit(ctx context.Context) (model.Request, error) {
	req := v.request()
	if err := v.compact(ctx, roughly(req.Messages)); err != nil {
		return req, err
	}
	done, err := v.condense(ctx, req, false)
	if !done || err != nil {
		return req, err
	}
	return v.request(), nil
}

// threshold is how many tokens may be taken before something gives way; 0 is any number.
func (v *modelVoice) threshold() int { return v.agent.Window / 100 * v.gen.Tasks.ThresholdPct }

// request is what the model is asked, without the turns before.
func (v *modelVoice) request() model.Request {
	own := v.state.Messages()
	return model.Request{
		System: v.agent.System, Messages: own, Tools: v.agent.Tools, Session: v.row.Session, OpenImage: v.openImage,
		Rough: v.instructions() + model.Rough(model.Request{Messages: own}),
	}
}

// instructions is what every request of the turn takes before its messages, in the tokens of model.Rough. Tools are more than most people say.
func (v *modelVoice) instructions() int {
	if v.instructed == 0 {
		v.instructed = model.Rough(model.Request{System: v.agent.System, Tools: v.agent.Tools})
	}
	return v.instructed
}

// condense puts a summary in the place of the turn's first steps, where transcript.Next finds that they should give way to the request, and
// commits it before anything is built on it. Where none can be had the steps stay, unless they must go, and then the model is told that they
// are missing. refused is true where the model has found the request too long.
func (v *modelVoice) condense(ctx context.Context, req model.Request, refused bool) (done bool, err error) {
	if v.threshold() == 0 {
		return false, nil
	}
	now := v.now(ctx)
	now.Fill = &transcript.Fill{
		Window: v.agent.Window, Threshold: v.threshold(), Own: v.counted(req), Before: v.session.size(), Keep: v.gen.Tasks.KeepTurns,
		Refused: refused, Unsummarised: v.unsummarised,
	}
	next, ok := transcript.Next(&v.state, now).(transcript.Condense)
	if !ok {
		return false, nil
	}
	before := v.state.Condensed
	c := transcript.CondensedStep{Entries: next.Upto, Text: before.Text, Lost: before.Lost}
	text, err := v.summariseSteps(ctx, before, next.Upto)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		c.Text = text
	default:
		v.unsummarised = true
		v.log.Warn("cannot summarise the first steps of a turn", "turn", v.row.ID, "left_out", next.Must, "error", err)
		if !next.Must {
			return false, nil
		}
		c.Lost += next.Upto - before.Entries
	}
	v.step(c)
	if err := v.commit(ctx); err != nil {
		return false, err
	}
	v.log.Info("turn compacted", "session", v.row.Session, "turn", v.row.ID, "steps", next.Upto, "summary_bytes", len(c.Text))
	return true, nil
}

// errUnsummarised is why no further summary is asked for in a turn in which one could not be had.
var errUnsummarised = errors.New("an earlier one of this turn could not be made")

func (v *modelVoice) summariseSteps(ctx context.Context, before transcript.CondensedStep, upto int) (string, error) {
	if v.unsummarised {
		return "", errUnsummarised
	}
	var texts []string
	for i := before.Entries; i < upto; i++ {
		texts = append(texts, endedTurn{messages: transcript.Messages(v.state.Answers[i : i+1])}.record())
	}
	return v.tasks.Compact(ctx, before.Text, texts, v.gen.Tasks.SummaryTokens)
}
