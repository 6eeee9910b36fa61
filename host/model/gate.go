package model

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// Gate admits every attempt at a model, retries and fallbacks included, so that each is paid from a budget.
type Gate interface {
	// Enter is called before an attempt, and may wait. An error ends the whole call.
	Enter(ctx context.Context, a Attempt) error
	// Leave is called after an admitted attempt with its outcome and the usage that the provider charged, as far as that is known. It
	// must not block.
	Leave(a Attempt, charged Usage, err error)
}

// Attempt is one call of one model.
type Attempt struct {
	Tier     string
	Provider string
	Model    string
	Number   int // from 1, within its tier
	Start    time.Time
	// Worst is the highest expected usage: the request as estimated, and the longest answer.
	Worst Usage
}

// refusedError is the error of a gate: no fallback is tried after it.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

func (r *Request) enter(ctx context.Context, a Attempt) error {
	if r.Gate == nil {
		return nil
	}
	if err := r.Gate.Enter(ctx, a); err != nil {
		return refusedError{err}
	}
	return nil
}

func (r *Request) leave(a Attempt, charged Usage, err error) {
	if r.Gate != nil {
		r.Gate.Leave(a, charged, err)
	}
}

// attempt describes the next call of the tier; rough is the estimate of Rough for the request.
func (t *tier) attempt(req Request, rough, number int) Attempt {
	worst := Usage{Input: t.scaled(rough), Output: req.MaxTokens, Estimated: true}
	worst.CostUSD = dearest(worst, t.cfg.Prices)
	return Attempt{Tier: t.name, Provider: t.cfg.Provider, Model: t.cfg.Model, Number: number, Start: time.Now(), Worst: worst}
}

// dearest prices a request whose cached part is not known yet.
func dearest(u Usage, p config.Prices) float64 {
	return (float64(u.Input)*max(p.Input, p.CacheRead, p.CacheWrite) + float64(u.Output)*p.Output) / 1e6
}

// charged is the usage that the provider charges for an attempt, estimated cautiously if it gave no figures: an accepted request is paid
// for even if its answer broke off or the caller left.
func (t *tier) charged(a Attempt, got Usage, err error, text int) Usage {
	if err == nil {
		return got
	}
	kind := kindOf(err)
	begun := text > 0 || got != (Usage{})
	if !begun && kind != "" && kind != Cut && kind != Timeout && kind != BadAnswer {
		return Usage{}
	}
	if got.Input+got.CacheRead+got.CacheWrite == 0 {
		got.Input, got.Estimated = a.Worst.Input, true
	}
	if written := (text + 2) / 3; written > got.Output {
		got.Output, got.Estimated = written, true
	}
	got.CostUSD = Cost(got, t.cfg.Prices)
	return got
}
