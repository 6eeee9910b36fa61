package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// fakePeople answers every request after doing something.
type fakePeople struct {
	grant    bool
	decider  string
	meantime func()
	failure  error
	lease    consent.Grant // covers every call, if it has an ID
	used     []approval.Ask
	asks     []approval.Ask
	spent    int
}

func (p *fakePeople) Request(_ context.Context, ask approval.Ask) (consent.Approval, error) {
	p.asks = append(p.asks, ask)
	return consent.Approval{ID: fmt.Sprint(len(p.asks) - 1)}, p.failure
}

func (p *fakePeople) Wait(context.Context, string) (bool, string, error) {
	if p.meantime != nil {
		p.meantime()
	}
	return p.grant, p.decider, nil
}

func (p *fakePeople) Consume(_ context.Context, id string, b approval.Binding) error {
	ask := p.asks[len(p.asks)-1]
	if fmt.Sprint(ask.Binding) != fmt.Sprint(b) {
		return approval.ErrDrift
	}
	p.spent++
	return nil
}

func (p *fakePeople) Use(_ context.Context, ask approval.Ask) (consent.Grant, bool, error) {
	if p.lease.ID != "" {
		p.used = append(p.used, ask)
	}
	return p.lease, p.lease.ID != "", nil
}

func TestAdmit(t *testing.T) {
	var stopped string
	var digest int
	var denied bool
	chain := policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) {
		return policy.Restrictions{Deny: denied}, []policy.Record{{Policy: "p", Digest: fmt.Sprint(digest)}}
	})
	e := newEnforcer(t, func(c *EnforcerConfig) {
		c.Stopped = func() string { return stopped }
		c.Policies = chain
	})
	shell := model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}
	for _, c := range []struct {
		name     string
		call     model.ToolCall
		people   *fakePeople
		action   Action
		refusal  string
		asked    int
		spent    int
		nobodyIn bool
	}{
		{name: "no question", call: model.ToolCall{Name: "memory.read"}, people: &fakePeople{}, action: Run},
		{name: "granted", call: shell, people: &fakePeople{grant: true, decider: "irc:alice"}, action: Run, asked: 1, spent: 1},
		{name: "denied by a person", call: shell, people: &fakePeople{decider: "irc:alice"}, action: Deny, refusal: "irc:alice did not approve", asked: 1},
		{name: "expired", call: shell, people: &fakePeople{}, action: Deny, refusal: "in time", asked: 1},
		{name: "nobody to ask", call: shell, nobodyIn: true, action: Deny, refusal: "nobody to ask"},
		{name: "stopped in between", call: shell, people: &fakePeople{grant: true, meantime: func() { stopped = "by alice" }}, action: Deny, refusal: "by alice", asked: 1},
		{name: "a policy denies in between", call: shell, people: &fakePeople{grant: true, meantime: func() { denied = true }}, action: Deny, refusal: "policy", asked: 1},
		{name: "policies changed once", call: shell, people: &fakePeople{grant: true, meantime: func() { digest = 1 }}, action: Run, asked: 2, spent: 1},
		{name: "policies change each time", call: shell, people: &fakePeople{grant: true, meantime: func() { digest++ }}, action: Deny, refusal: "each time", asked: maxAsks},
	} {
		t.Run(c.name, func(t *testing.T) {
			stopped, digest, denied = "", 0, false
			var people Approver
			if !c.nobodyIn {
				people = c.people
			}
			var heard int
			v, err := e.Admit(t.Context(), channelSubject(), c.call, people, func(v Decision, _ consent.Approval) {
				if v.Action == Ask {
					heard++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if v.Action != c.action || !strings.Contains(v.Refusal, c.refusal) {
				t.Errorf("decision %s, refusal %q; want %s, %q", v.Action, v.Refusal, c.action, c.refusal)
			}
			if c.nobodyIn {
				return
			}
			if len(c.people.asks) != c.asked || heard != c.asked || c.people.spent != c.spent {
				t.Errorf("asked %d, heard of %d, spent %d; want %d, %d", len(c.people.asks), heard, c.people.spent, c.asked, c.spent)
			}
			if want := max(c.asked, 0) + 1; v.Action == Run && len(v.Records) != want {
				t.Errorf("%d records, want those of all %d rounds", len(v.Records), want)
			}
		})
	}
}

func TestAdmitShowsEverything(t *testing.T) {
	people := &fakePeople{grant: true, decider: "irc:alice"}
	s := with(channelSubject(), func(s *Subject) { s.Dir = "/work" })
	v, err := newEnforcer(t, nil).Admit(t.Context(), s, model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}, people, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := people.asks[0]
	if ask.Tool != "shell.exec" || string(ask.Args) != `{"command":"ls"}` || ask.Dir != "/work" || ask.Agent != "coder" || ask.Where != "host" ||
		ask.Policy == "" || ask.Turn != "t1" || ask.Session != "irc:#x:coder" || ask.Requester != "irc:bob" || len(ask.Reasons) == 0 {
		t.Errorf("asked %+v", ask)
	}
	if !strings.Contains(strings.Join(v.Reasons, ";"), "irc:alice") {
		t.Errorf("reasons %q do not name who approved", v.Reasons)
	}
}

func TestAdmitDeniesWhenTooManyWait(t *testing.T) {
	e := newEnforcer(t, nil)
	call := model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}
	s := channelSubject()
	v, err := e.Admit(t.Context(), s, call, &fakePeople{failure: approval.ErrMany}, nil)
	if err != nil || v.Action != Deny || !strings.Contains(v.Refusal, approval.ErrMany.Error()) {
		t.Fatalf("%+v, %v", v, err)
	}
}

func TestAdmitDoesNotRunWhenAskingFails(t *testing.T) {
	people := &fakePeople{grant: true, failure: errors.New("store is full")}
	v, err := newEnforcer(t, nil).Admit(t.Context(), channelSubject(), model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}, people, nil)
	if err == nil || v.Action == Run {
		t.Errorf("decision %s, error %v; want an error and no run", v.Action, err)
	}
}
