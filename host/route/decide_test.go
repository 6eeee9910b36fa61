package route

import (
	"context"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// chain answers as it is told and keeps what it was asked.
type chain struct {
	answer policy.RouteAnswer
	asked  []policy.RouteFacts
}

func (c *chain) Route(_ context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	c.asked = append(c.asked, f)
	return c.answer, []policy.Record{{Policy: "p"}}
}

func TestDecide(t *testing.T) {
	table, _ := New(load(t, "[routing.senders]\n'irc:alice' = 'a'"))
	tests := map[string]struct {
		answer  policy.RouteAnswer
		agents  []string
		agent   string
		policy  string
		failed  bool
		dropped bool
		text    string
	}{
		"all abstain":         {agent: "a", text: "agent a: sender rule irc:alice"},
		"a policy decides":    {answer: policy.RouteAnswer{Decided: true, Agent: "b", Policy: "p", Reason: "why"}, agent: "b", policy: "p", text: "agent b: policy p: why"},
		"a policy drops":      {answer: policy.RouteAnswer{Decided: true, Policy: "p"}, policy: "p", dropped: true, text: "nobody answers: policy p"},
		"failure with agent":  {answer: policy.RouteAnswer{Decided: true, Agent: "c", Policy: "p", Failed: true, Reason: "trap"}, agent: "c", policy: "p", failed: true, text: "agent c: policy p failed: trap"},
		"failure without":     {answer: policy.RouteAnswer{Decided: true, Policy: "p", Failed: true, Reason: "trap"}, policy: "p", failed: true, text: "nobody answers: policy p failed: trap"},
		"unknown agent":       {answer: policy.RouteAnswer{Decided: true, Agent: "z", Policy: "p"}, policy: "p", failed: true, text: `nobody answers: policy p failed: it chose the agent "z", which may not be chosen here`},
		"agent not allowed":   {answer: policy.RouteAnswer{Decided: true, Agent: "b", Policy: "p"}, agents: []string{"a"}, policy: "p", failed: true, text: `nobody answers: policy p failed: it chose the agent "b", which may not be chosen here`},
		"candidate forbidden": {agents: []string{"b"}, text: "nobody answers: no rule"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &chain{answer: test.answer}
			facts := policy.RouteFacts{Agents: test.agents, Facts: policy.Facts{
				Message: message.Message{Channel: "irc", Sender: message.Sender{ID: "alice"}},
			}}
			d, records := Decide(t.Context(), table, c, facts)
			if d.Agent != test.agent || d.Policy != test.policy || d.Failed != test.failed || d.Dropped() != test.dropped {
				t.Errorf("decided %+v", d)
			}
			if d.String() != test.text {
				t.Errorf("told as %q, want %q", d, test.text)
			}
			if len(records) != 1 || len(c.asked) != 1 {
				t.Fatalf("%d records, %d questions", len(records), len(c.asked))
			}
			want := test.agents
			if want == nil {
				want = []string{"a", "b", "c", "d"}
			}
			if asked := c.asked[0]; !slices.Equal(asked.Agents, want) || slices.Contains(want, "a") != (asked.Candidate == "a") {
				t.Errorf("asked with %q of %q", asked.Candidate, asked.Agents)
			}
		})
	}
}

func TestDecideWithoutPolicies(t *testing.T) {
	table, _ := New(load(t, ""))
	d, records := Decide(t.Context(), table, nil, policy.RouteFacts{})
	if d.Agent != "d" || d.Static.Tier != TierDefault || records != nil {
		t.Errorf("decided %+v with %v", d, records)
	}
}

// TestFoundingNoAgent: "without [default_agent] and without a match, no agent answers" (founding documents, row 9).
func TestFoundingNoAgent(t *testing.T) {
	table, findings := New(&config.Config{
		Agents:  map[string]config.Agent{"main": {}},
		Routing: config.Routing{Senders: map[string]string{"irc:ann": "main"}, Channels: map[string]string{"web": "main"}},
	})
	if len(findings) > 0 {
		t.Errorf("the rules are odd: %v", findings)
	}
	for sender, want := range map[string]string{"ann": "main", "bob": ""} {
		m := message.Message{Channel: "irc", Sender: message.Sender{ID: sender}}
		d, _ := Decide(t.Context(), table, nil, policy.RouteFacts{Facts: policy.Facts{Message: m}})
		if d.Agent != want {
			t.Errorf("%s: %v, want agent %q", sender, d, want)
		}
	}
}

// TestNoRuleAtAll warns where nobody would be answered.
func TestNoRuleAtAll(t *testing.T) {
	agents := map[string]config.Agent{"main": {}}
	for name, c := range map[string]struct {
		cfg  *config.Config
		want int
	}{
		"nothing":       {&config.Config{Agents: agents}, 1},
		"shadow":        {&config.Config{Agents: agents, Policies: []config.Policy{{Kinds: []string{"route"}, Shadow: true}}}, 1},
		"tool policy":   {&config.Config{Agents: agents, Policies: []config.Policy{{Kinds: []string{"tool"}}}}, 1},
		"policy":        {&config.Config{Agents: agents, Policies: []config.Policy{{Kinds: []string{"route"}}}}, 0},
		"default agent": {&config.Config{Agents: agents, Routing: config.Routing{DefaultAgent: "main"}}, 0},
	} {
		if _, findings := New(c.cfg); len(findings) != c.want || c.want > 0 && !findings[0].Warning {
			t.Errorf("%s: %v, want %d warnings", name, findings, c.want)
		}
	}
}
