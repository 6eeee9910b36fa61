package tool

import (
	"context"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
)

// revocable is a provider's tool that can be another one at any time.
type revocable struct {
	fakeTool
	why *string
}

func (r revocable) Revoked() string { return *r.why }

func provided(effect Effect, approve Approve) fakeTool {
	return fakeTool{spec: Spec{Name: "ext.act", Provider: "ext", Effect: effect, Approve: approve, Digest: "1", Profiles: []string{Coding}}}
}

func TestProvidersToolsAskAsConfigured(t *testing.T) {
	local := with(localSubject(), func(s *Subject) { s.Offered = NewSet("ext.act") })
	tired := with(local, func(s *Subject) { s.Approve = ApproveNone })
	channel := with(channelSubject(), func(s *Subject) { s.Offered = NewSet("ext.act") })
	boxed := with(channel, func(s *Subject) { s.Sandbox = SandboxState{Configured: true, Names: []string{""}} })
	for _, c := range []struct {
		name    string
		tool    fakeTool
		subject Subject
		policy  policy.Restrictions
		want    Action
	}{
		{"the worst over a channel", provided(Execute, ""), channel, policy.Restrictions{}, Ask},
		{"the worst at a local frontend", provided(Execute, ApproveByEffect), local, policy.Restrictions{}, Ask},
		{"the worst, with approve none at a local frontend", provided(Execute, ""), tired, policy.Restrictions{}, Run},
		{"for good", provided(Destructive, ""), channel, policy.Restrictions{}, Ask},
		{"harmless", provided(Read, ""), channel, policy.Restrictions{}, Run},
		{"network", provided(Network, ""), channel, policy.Restrictions{}, Run},
		{"harmless, asked always", provided(Read, ApproveAlways), channel, policy.Restrictions{}, Ask},
		{"asked always, also with approve none", provided(Read, ApproveAlways), tired, policy.Restrictions{}, Ask},
		{"the worst, never asked", provided(Execute, ApproveNever), channel, policy.Restrictions{}, Run},
		{"never asked, but by a policy", provided(Read, ApproveNever), channel, policy.Restrictions{Ask: true}, Ask},
		{"the agent's sandbox does not hold it", provided(Execute, ""), boxed, policy.Restrictions{}, Ask},
		{"a policy that demands a sandbox", provided(Read, ApproveNever), boxed, policy.Restrictions{Sandbox: true}, Deny},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnforcer(t, func(cfg *EnforcerConfig) {
				cfg.Registry, cfg.Policies = newRegistry(t, c.tool), always(c.policy)
			})
			v := e.enforce(t.Context(), c.subject, model.ToolCall{Name: "ext.act"})
			if v.Action != c.want || v.Sandbox {
				t.Errorf("%s %q, want %s", v.Action, v.Reasons, c.want)
			}
			if c.want == Ask && !c.policy.Ask && !strings.Contains(strings.Join(v.Reasons, " "), "of ext need a person's approval") {
				t.Errorf("reasons %q", v.Reasons)
			}
		})
	}
}

// TestApprovalIsGoodForTheToolThatWasShown changes a tool while a person thinks about it.
func TestApprovalIsGoodForTheToolThatWasShown(t *testing.T) {
	s := with(channelSubject(), func(s *Subject) { s.Offered = NewSet("ext.act") })
	call := model.ToolCall{Name: "ext.act"}
	t.Run("another one under its name", func(t *testing.T) {
		registry := newRegistry(t, provided(Execute, ""))
		e := newEnforcer(t, func(c *EnforcerConfig) { c.Registry = registry })
		digest := "1"
		people := &fakePeople{grant: true, decider: "ann", meantime: func() {
			other := provided(Execute, "")
			digest += "1"
			other.spec.Digest = digest
			if err := registry.Replace(other); err != nil {
				t.Error(err)
			}
		}}
		v, err := e.Admit(context.Background(), s, call, people, nil)
		if err != nil || v.Action != Deny || people.spent != 0 || len(people.asks) != maxAsks {
			t.Errorf("%s after %d requests, %d spent, %v", v.Action, len(people.asks), people.spent, err)
		}
	})
	t.Run("one that is gone", func(t *testing.T) {
		why := ""
		e := newEnforcer(t, func(c *EnforcerConfig) { c.Registry = newRegistry(t, revocable{provided(Execute, ""), &why}) })
		people := &fakePeople{grant: true, decider: "ann", meantime: func() { why = "it is another one now" }}
		v, err := e.Admit(context.Background(), s, call, people, nil)
		if err != nil || v.Action != Deny || !strings.Contains(v.Refusal, why) || people.spent != 0 {
			t.Errorf("%s %q, %v", v.Action, v.Refusal, err)
		}
		if v = e.enforce(context.Background(), s, call); v.Action != Deny {
			t.Errorf("a call of a tool that is gone: %s", v.Action)
		}
	})
}

func TestProvidersToolsAreOfferedWhereConfigured(t *testing.T) {
	r := newRegistry(t, provided(Read, ""), named("memory.read"))
	for profile, want := range map[string]bool{Minimal: false, Messaging: false, Coding: true, Full: false} {
		offered, err := r.Offered(profile, Overrides{})
		if err != nil || offered.Has("ext.act") != want || !offered.Has("memory.read") {
			t.Errorf("%s offers %q, %v", profile, offered.Names(), err)
		}
	}
	if offered, err := r.Offered(Minimal, Overrides{Allow: []string{"ext.*"}}); err != nil || !offered.Has("ext.act") {
		t.Errorf("an override gives %q, %v", offered.Names(), err)
	}
	if offered, err := r.Offered(Coding, Overrides{Deny: []string{"ext.act"}}); err != nil || offered.Has("ext.act") {
		t.Errorf("an override leaves %q, %v", offered.Names(), err)
	}
}
