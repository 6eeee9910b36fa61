package tool

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
)

func TestEnforceForAParent(t *testing.T) {
	box := func(name string) func(*Subject) {
		return func(s *Subject) { s.Sandbox = SandboxState{Configured: true, Name: name} }
	}
	under := func(child, parent Subject) Subject {
		child.Agent, child.Parent = "helper", &parent
		return child
	}
	none := with(channelSubject(), func(s *Subject) { s.Offered = NewSet("memory.read") })
	tired := with(localSubject(), func(s *Subject) { s.Approve = ApproveNone })
	for _, c := range []struct {
		name    string
		subject Subject
		tool    string
		policy  func(policy.ToolFacts) policy.Restrictions
		action  Action
		where   string
		reason  string
	}{
		{"both may", under(channelSubject(), channelSubject()), "memory.read", nil, Run, "host", ""},
		{"the parent is not offered it", under(channelSubject(), none), "file.write", nil, Deny, "", "for agent coder: tool"},
		{"the child is not offered it", under(none, channelSubject()), "file.write", nil, Deny, "", "not offered"},
		{"the parent would be asked", under(tired, localSubject()), "shell.exec", nil, Ask, "host", "for agent coder"},
		{"the child would be asked", under(localSubject(), tired), "shell.exec", nil, Ask, "host", "local frontend"},
		{"the parent is in a sandbox", under(tired, with(tired, box(""))), "shell.exec", nil, Run, "sandbox", ""},
		{"the child is in a stricter one", under(with(tired, box("tight")), with(tired, box(""))), "shell.exec", nil, Run, "tight", ""},
		{"a policy denies the parent alone", under(channelSubject(), channelSubject()), "memory.read", func(f policy.ToolFacts) policy.Restrictions {
			if f.Agent != "coder" {
				return policy.Restrictions{}
			}
			return policy.Restrictions{Deny: true, Reasons: []string{"p: not coder"}}
		}, Deny, "", "for agent coder: p: not coder"},
		{"a policy demands another sandbox for the parent",
			under(with(tired, box("tight")), with(tired, func(s *Subject) { s.Sandbox.Names = []string{"far"} })), "file.write",
			func(f policy.ToolFacts) policy.Restrictions {
				if f.Agent == "helper" {
					return policy.Restrictions{}
				}
				return policy.Restrictions{Sandbox: true, Sandboxes: []string{"far"}}
			}, Deny, "", "different sandboxes"},
		{"the grandparent counts", under(channelSubject(), under(channelSubject(), none)), "file.write", nil, Deny, "", "for agent coder: tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnforcer(t, func(cfg *EnforcerConfig) {
				cfg.Policies = policyFunc(func(f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
					if c.policy == nil {
						return policy.Restrictions{}, nil
					}
					return c.policy(f), nil
				})
			})
			v := e.enforce(t.Context(), c.subject, model.ToolCall{Name: c.tool, Args: argsFor(c.tool)})
			if v.Action != c.action || v.Where != c.where || !strings.Contains(strings.Join(v.Reasons, "; "), c.reason) {
				t.Errorf("decision %s at %q because of %q, want %s at %q because of %q", v.Action, v.Where, v.Reasons, c.action, c.where, c.reason)
			}
		})
	}
}

func TestChainNamesEveryAgent(t *testing.T) {
	main, middle := Subject{Agent: "main"}, Subject{Agent: "middle"}
	middle.Parent = &main
	if got := (Subject{Agent: "last", Parent: &middle}).Chain(); got != "main > middle > last" {
		t.Error(got)
	}
}

// TestAChildMayNoMoreThanItsParents is the promise of delegation: whatever the agents of a chain are configured for, and whatever
// policies say of each, no call is treated more loosely than it would be if any one of them made it.
func TestAChildMayNoMoreThanItsParents(t *testing.T) {
	var of map[string]policy.Restrictions
	e := newEnforcer(t, func(c *EnforcerConfig) {
		c.Policies = policyFunc(func(f policy.ToolFacts) (policy.Restrictions, []policy.Record) { return of[f.Agent], nil })
	})
	rapid.Check(t, func(t *rapid.T) {
		of = map[string]policy.Restrictions{}
		local := rapid.Bool().Draw(t, "at a local frontend")
		var chain []Subject
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "agents")] {
			s := drawSubject(t)
			s.Agent, s.Local = name, local // one person at one frontend
			s.Offered = NewSet(rapid.SliceOfDistinct(rapid.SampledFrom(offerAll.Names()), rapid.ID).Draw(t, "offered")...)
			of[name] = drawRestrictions(t, name)
			chain = append(chain, s)
		}
		name := rapid.SampledFrom(offerAll.Names()).Draw(t, "tool")
		call := model.ToolCall{Name: name, Args: argsFor(name)}
		whole := chain[0]
		for _, s := range chain[1:] {
			parent := whole
			s.Parent = &parent
			whole = s
		}
		child := e.enforce(context.Background(), whole, call)
		for _, s := range chain {
			alone := e.enforce(context.Background(), s, call)
			if strictness(child.Action) < strictness(alone.Action) {
				t.Fatalf("%s for agent %s, but %s for the chain", alone.Action, s.Agent, child.Action)
			}
			if alone.Sandbox && child.Action != Deny && !child.Sandbox {
				t.Fatalf("agent %s is in sandbox %q, but the chain is on the host", s.Agent, alone.SandboxName)
			}
		}
	})
}
