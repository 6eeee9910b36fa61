package agent

import (
	"context"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// policyUsage returns a session's usage as policies see it; turns counts the earlier turns.
func policyUsage(u transcript.Used, turns int, now time.Time) policy.Usage {
	p := policy.Usage{Turns: turns, Tokens: u.Tokens, Cost: micros(u.CostUSD)}
	if !u.Began.IsZero() {
		p.Age = max(now.Sub(u.Began), 0) // the clock may have been set back
	}
	return p
}

// micros converts dollars to millionths, without overflow.
func micros(usd float64) int64 {
	const most = 9e12
	if !(usd > 0) {
		return 0
	}
	return int64(math.Round(min(usd, most) * 1e6))
}

// sessionFacts adds to the facts of route policies the session that a message would continue with its candidate.
type sessionFacts struct {
	Policies
	runner *Runner
	scope  turnlog.Scope
}

// Route implements route.Policies. If the session cannot be read, it returns an error and nobody answers: without these facts a policy
// might let the wrong agent answer.
func (k sessionFacts) Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	if f.Candidate != "" && k.Routes() {
		key := k.scope.Session(f.Candidate)
		s, err := patiently(ctx, k.runner, func() (*session, error) { return k.runner.sessions.look(ctx, key) })
		if err != nil {
			if ctx.Err() == nil {
				k.runner.cfg.Log.Error("cannot read the session for the route policies", "session", key, "error", err)
			}
			return policy.RouteAnswer{Decided: true, Policy: "host", Reason: "the conversation could not be read", Failed: true}, nil
		}
		f.Labels, f.Used = s.labels, policyUsage(s.used, s.count, f.Now)
	}
	return k.Policies.Route(ctx, f)
}

// supposedFacts are sessionFacts of a session that has touched and used something else.
type supposedFacts struct {
	Policies
	facts policy.Facts
}

// Route implements route.Policies.
func (s supposedFacts) Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	f.Labels, f.Used = s.facts.Labels, s.facts.Used
	return s.Policies.Route(ctx, f)
}

var _ route.Policies = sessionFacts{}
