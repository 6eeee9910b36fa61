package agent

import (
	"context"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// Used is what a session has used. Each turn records what came before it, so that a session of any length is known by its last
// turns.
type Used struct {
	Tokens  int64     `json:"tokens,omitempty"` // read, written and cached ones alike
	CostUSD float64   `json:"cost_usd,omitempty"`
	Began   time.Time `json:"began,omitzero"` // the first turn
}

func (u *Used) add(m model.Usage) {
	u.Tokens += int64(max(m.Input, 0)) + int64(max(m.Output, 0)) + int64(max(m.CacheRead, 0)) + int64(max(m.CacheWrite, 0))
	u.CostUSD += m.CostUSD
}

// addTurn counts a turn, which knows what came before it unless an older version of the program ran it.
func (u *Used) addTurn(t *turnSteps) {
	if t.user.Used != nil {
		*u = *t.user.Used
	}
	for _, e := range t.entries {
		u.add(e.answer.Usage)
	}
	u.add(sum(t.tasks))
	for _, c := range t.children() {
		u.Tokens += c.Used.Tokens
		u.CostUSD += c.Used.CostUSD
	}
}

// usage is for policies; turns are those before the one that is decided about.
func (u Used) usage(turns int, now time.Time) policy.Usage {
	p := policy.Usage{Turns: turns, Tokens: u.Tokens, Cost: micros(u.CostUSD)}
	if !u.Began.IsZero() {
		p.Age = max(now.Sub(u.Began), 0) // the clock may have been set back
	}
	return p
}

// micros turns dollars into millionths, without an overflow.
func micros(usd float64) int64 {
	const most = 9e12
	if !(usd > 0) {
		return 0
	}
	return int64(math.Round(min(usd, most) * 1e6))
}

// knowing tells the route policies of the session that a message would continue with its candidate.
type knowing struct {
	Policies
	runner *Runner
	place  turnlog.Place
}

// Route implements route.Policies. Where the session cannot be read the policies are not asked: nobody answers, rather than somebody
// whom a policy would have kept away.
func (k knowing) Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	if f.Candidate != "" && k.Routes() {
		key := k.place.Session(f.Candidate)
		s, err := patiently(ctx, k.runner, func() (*session, error) { return k.runner.sessions.look(ctx, key) })
		if err != nil {
			if ctx.Err() == nil {
				k.runner.cfg.Log.Error("cannot read the session for the route policies", "session", key, "error", err)
			}
			return policy.RouteAnswer{Decided: true, Policy: "host", Reason: "the conversation could not be read back", Failed: true}, nil
		}
		f.Labels, f.Used = s.labels, s.used.usage(s.count, f.Now)
	}
	return k.Policies.Route(ctx, f)
}

var _ route.Policies = knowing{}

// Spent sums up the tokens of a turn's model calls, from its steps.
func Spent(steps []turnlog.Step) (input, output int, err error) {
	ts, err := decodeTurn(steps)
	for _, e := range ts.entries {
		u := e.answer.Usage
		input += u.Input + u.CacheRead + u.CacheWrite
		output += u.Output
	}
	return input, output, err
}
