package agent

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/model"
)

// A single turn may outgrow the context window. Its first steps are then replaced by a summary, like older turns. The person's message,
// the system prompt and the last steps stay whole, and a call stays together with its result. The steps and their labels stay in the
// store.

// fit makes room for a model call when the window fills up: it summarises first the earlier turns, then the turn's own first steps. It
// returns the request without the earlier turns.
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

// threshold returns how many tokens may be used before something is summarised; 0 means no limit.
func (v *modelVoice) threshold() int { return v.agent.Window / 100 * v.gen.Tasks.ThresholdPct }

// request returns the model request without the earlier turns.
func (v *modelVoice) request() model.Request {
	own := v.state.Messages()
	return model.Request{
		System: v.agent.System, Messages: own, Tools: v.agent.Tools, Session: string(v.row.Session), OpenImage: v.openImage,
		Rough: v.instructions() + model.Rough(model.Request{Messages: own}),
	}
}

// instructions returns the tokens that every request of the turn needs before its messages, by model.Rough. Tools often outweigh the
// conversation.
func (v *modelVoice) instructions() int {
	if v.instructed == 0 {
		v.instructed = model.Rough(model.Request{System: v.agent.System, Tools: v.agent.Tools})
	}
	return v.instructed
}

// condense replaces the turn's first steps by a summary if transcript.Next finds that the request needs it, and commits the summary
// before using it. If no summary can be made the steps stay, unless they must go; then the model is told that they are missing. refused
// is true if the model has rejected the request as too long.
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

// errUnsummarised stops further attempts in a turn in which a summary has failed.
var errUnsummarised = errors.New("an earlier summary of this turn failed")

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
