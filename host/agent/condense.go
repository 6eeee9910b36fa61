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
func (t *turn) fit(ctx context.Context) (model.Request, error) {
	req := t.request()
	if err := t.compact(ctx, roughly(req.Messages)); err != nil {
		return req, err
	}
	done, err := t.condense(ctx, req, false)
	if !done || err != nil {
		return req, err
	}
	return t.request(), nil
}

// threshold is how many tokens may be taken before something gives way; 0 is any number.
func (t *turn) threshold() int { return t.agent.Window / 100 * t.gen.Tasks.ThresholdPct }

// request is what the model is asked, without the turns before.
func (t *turn) request() model.Request {
	own := t.state.Messages()
	return model.Request{
		System: t.agent.System, Messages: own, Tools: t.agent.Tools, Session: t.row.Session, OpenImage: t.openImage(),
		Rough: t.instructions() + model.Rough(model.Request{Messages: own}),
	}
}

// instructions is what every request of the turn takes before its messages, in the tokens of model.Rough. Tools are more than most people say.
func (t *turn) instructions() int {
	if t.instructed == 0 {
		t.instructed = model.Rough(model.Request{System: t.agent.System, Tools: t.agent.Tools})
	}
	return t.instructed
}

// condense puts a summary in the place of the turn's first steps, where transcript.Next finds that they should give way to the request, and
// commits it before anything is built on it. Where none can be had the steps stay, unless they must go, and then the model is told that they
// are missing. refused is true where the model has found the request too long.
func (t *turn) condense(ctx context.Context, req model.Request, refused bool) (done bool, err error) {
	if t.threshold() == 0 {
		return false, nil
	}
	now := t.now(ctx)
	now.Fill = &transcript.Fill{
		Window: t.agent.Window, Threshold: t.threshold(), Own: t.counted(req), Before: t.session.size(), Keep: t.gen.Tasks.KeepTurns,
		Refused: refused, Unsummarised: t.unsummarised,
	}
	next, ok := transcript.Next(&t.state, now).(transcript.Condense)
	if !ok {
		return false, nil
	}
	before := t.state.Condensed
	c := transcript.CondensedStep{Entries: next.Upto, Text: before.Text, Lost: before.Lost}
	text, err := t.summariseSteps(ctx, before, next.Upto)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		c.Text = text
	default:
		t.unsummarised = true
		t.cfg.Log.Warn("cannot summarise the first steps of a turn", "turn", t.row.ID, "left_out", next.Must, "error", err)
		if !next.Must {
			return false, nil
		}
		c.Lost += next.Upto - before.Entries
	}
	t.step(c)
	if err := t.commit(ctx); err != nil {
		return false, err
	}
	t.cfg.Log.Info("turn compacted", "session", t.row.Session, "turn", t.row.ID, "steps", next.Upto, "summary_bytes", len(c.Text))
	return true, nil
}

// errUnsummarised is why no further summary is asked for in a turn in which one could not be had.
var errUnsummarised = errors.New("an earlier one of this turn could not be made")

func (t *turn) summariseSteps(ctx context.Context, before transcript.CondensedStep, upto int) (string, error) {
	if t.unsummarised {
		return "", errUnsummarised
	}
	var texts []string
	for i := before.Entries; i < upto; i++ {
		texts = append(texts, endedTurn{messages: transcript.Messages(t.state.Answers[i : i+1])}.record())
	}
	return t.tasks().Compact(ctx, before.Text, texts, t.gen.Tasks.SummaryTokens)
}
