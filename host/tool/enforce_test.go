package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// offerAll is what the subjects of these tests may call.
var offerAll = NewSet("shell.exec", "file.write", "memory.read", "plugin.run", "code.run")

func channelSubject() Subject {
	return Subject{
		Message: message.Message{Channel: "irc", Sender: message.Sender{ID: "bob"}},
		Role:    "member", Door: "channel", Agent: "coder", Session: "irc:#x:coder", Turn: "t1",
		Offered: offerAll,
	}
}

func localSubject() Subject {
	s := channelSubject()
	s.Door, s.Local, s.Role = "terminal", true, "owner"
	return s
}

func with(s Subject, change func(*Subject)) Subject {
	change(&s)
	return s
}

func TestEnforceRules(t *testing.T) {
	errEngine := fmt.Errorf("%w: engine is down", machine.ErrUnavailable)
	failing := func() error { return errEngine }
	sandboxed := with(channelSubject(), func(s *Subject) { s.Sandbox = SandboxState{Configured: true} })
	down := with(sandboxed, func(s *Subject) { s.Sandbox.Unavailable = failing })
	downHost := with(down, func(s *Subject) { s.Sandbox.OnUnavailable = UnavailableHost })
	byPolicy := with(channelSubject(), func(s *Subject) { s.Sandbox.Names = []string{"", "offline"} })
	none := policy.Restrictions{}
	box := policy.Restrictions{Sandbox: true, Reasons: []string{"p: box"}}
	offline := policy.Restrictions{Sandbox: true, Sandboxes: []string{"offline"}}
	for _, c := range []struct {
		name    string
		subject Subject
		tool    string
		policy  policy.Restrictions
		action  Action
		where   string
		reason  string // part of the reasons joined
	}{
		{"read tool over a channel", channelSubject(), "memory.read", none, Run, "host", ""},
		{"file tool over a channel, on the host", channelSubject(), "file.write", none, Run, "host", ""},
		{"shell over a channel, on the host", channelSubject(), "shell.exec", none, Ask, "host", "over a channel"},
		{"the same with approve none", with(channelSubject(), func(s *Subject) { s.Approve = ApproveNone }), "shell.exec", none, Ask, "host", "over a channel"},
		{"shell at a local frontend", localSubject(), "shell.exec", none, Ask, "host", "at a local frontend"},
		{"shell at a local frontend, approve none", with(localSubject(), func(s *Subject) { s.Approve = ApproveNone }), "shell.exec", none, Run, "host", ""},
		{"unknown approve setting asks", with(localSubject(), func(s *Subject) { s.Approve = "never" }), "shell.exec", none, Ask, "host", ""},
		{"plugin that executes, over a channel", channelSubject(), "plugin.run", none, Ask, "host", "over a channel"},
		{"plugin that executes, sandbox on: it runs outside all the same", sandboxed, "plugin.run", none, Ask, "host", "over a channel"},

		{"shell in the agent's sandbox", sandboxed, "shell.exec", none, Run, "sandbox", ""},
		{"files follow into the sandbox", sandboxed, "file.write", none, Run, "sandbox", ""},
		{"memory does not", sandboxed, "memory.read", none, Run, "host", ""},
		{"named sandbox", with(sandboxed, func(s *Subject) { s.Sandbox.Name = "big" }), "shell.exec", none, Run, "big", ""},
		{"engine down", down, "shell.exec", none, Deny, "", "the sandbox is unavailable: engine is down"},
		{"engine down, files", down, "file.write", none, Deny, "", "engine is down"},
		{"engine down, memory", down, "memory.read", none, Run, "host", ""},
		{"engine down, host allowed, shell", downHost, "shell.exec", none, Ask, "host", "on_unavailable"},
		{"engine down, host allowed, files", downHost, "file.write", none, Run, "host", "on_unavailable"},
		{"engine down, host allowed, approve none", with(downHost, func(s *Subject) { s.Local, s.Approve = true, ApproveNone }), "shell.exec", none, Ask, "host", `approve = "none" does not change that`},
		{"engine down, host allowed, but a policy wants a sandbox", downHost, "shell.exec", box, Deny, "", "engine is down"},

		{"container of its own, over a channel", channelSubject(), "code.run", none, Run, OwnContainer, ""},
		{"container of its own, in no session's sandbox", sandboxed, "code.run", none, Run, OwnContainer, ""},
		{"container of its own, none to be had", with(downHost, func(s *Subject) { s.Sandbox.NoContainer = failing }), "code.run", none, Deny, "", "there is no container for this call: engine is down"},
		{"container of its own, a policy asks", channelSubject(), "code.run", policy.Restrictions{Ask: true, Reasons: []string{"p: hm"}}, Ask, OwnContainer, "p: hm"},
		{"container of its own, a policy wants a sandbox", channelSubject(), "code.run", box, Run, OwnContainer, "p: box"},
		{"container of its own, a policy wants a named one", byPolicy, "code.run", offline, Deny, "", "has a container of its own"},

		{"policy denies", sandboxed, "shell.exec", policy.Restrictions{Deny: true, Reasons: []string{"p: no"}}, Deny, "", "p: no"},
		{"policy denies without a reason", sandboxed, "shell.exec", policy.Restrictions{Deny: true}, Deny, "", "policy"},
		{"policy asks", sandboxed, "shell.exec", policy.Restrictions{Ask: true, Reasons: []string{"p: hm"}}, Ask, "sandbox", "p: hm"},
		{"policy asks about a harmless tool", channelSubject(), "memory.read", policy.Restrictions{Ask: true}, Ask, "host", "policy"},
		{"policy denies and asks", sandboxed, "shell.exec", policy.Restrictions{Deny: true, Ask: true}, Deny, "", ""},
		{"policy wants the sandbox that is", sandboxed, "shell.exec", box, Run, "sandbox", "p: box"},
		{"policy wants a sandbox, none configured", channelSubject(), "file.write", box, Deny, "", "not configured"},
		{"policy wants the default sandbox", byPolicy, "file.write", box, Run, "sandbox", "p: box"},
		{"policy wants a named sandbox", byPolicy, "file.write", offline, Run, "offline", ""},
		{"a name without the flag counts", byPolicy, "file.write", policy.Restrictions{Sandboxes: []string{"offline"}}, Run, "offline", ""},
		{"the same name twice", byPolicy, "file.write", policy.Restrictions{Sandbox: true, Sandboxes: []string{"offline", "offline"}}, Run, "offline", ""},
		{"policy wants an unknown sandbox", byPolicy, "file.write", policy.Restrictions{Sandbox: true, Sandboxes: []string{"x"}}, Deny, "", "not configured"},
		{"policies want two sandboxes", with(byPolicy, func(s *Subject) { s.Sandbox.Names = []string{"a", "b"} }), "file.write", policy.Restrictions{Sandbox: true, Sandboxes: []string{"a", "b"}}, Deny, "", "different sandboxes"},
		{"policy wants another than the agent's", with(sandboxed, func(s *Subject) { s.Sandbox.Names = []string{"offline"} }), "shell.exec", offline, Deny, "", "different sandboxes"},
		{"policy wants a sandbox for what cannot go there", sandboxed, "memory.read", box, Deny, "", "cannot run in one"},
		{"a policy's sandbox does not take the question back", byPolicy, "shell.exec", box, Ask, "sandbox", "over a channel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnforcer(t, func(cfg *EnforcerConfig) { cfg.Policies = always(c.policy) })
			v := e.enforce(t.Context(), c.subject, model.ToolCall{Name: c.tool, Args: argsFor(c.tool)})
			if v.Action != c.action || v.Where != c.where {
				t.Errorf("decision %s at %q, want %s at %q; reasons %q", v.Action, v.Where, c.action, c.where, v.Reasons)
			}
			if v.Sandbox != (v.Where != "" && v.Where != Host) {
				t.Errorf("sandbox %v, but it runs at %q", v.Sandbox, v.Where)
			}
			if !strings.Contains(strings.Join(v.Reasons, "; "), c.reason) {
				t.Errorf("reasons %q lack %q", v.Reasons, c.reason)
			}
			if (v.Action == Deny) != (v.Refusal != "") {
				t.Errorf("action %s with refusal %q", v.Action, v.Refusal)
			}
			if v.Action != Run && len(v.Reasons) == 0 {
				t.Error("restricted without a reason")
			}
		})
	}
}

func argsFor(tool string) json.RawMessage {
	if tool == "shell.exec" {
		return json.RawMessage(`{"command":"ls"}`)
	}
	return json.RawMessage(`{}`)
}

func TestEnforceRefusesBeforePoliciesAreAsked(t *testing.T) {
	call := model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}
	for _, c := range []struct {
		name    string
		subject Subject
		call    model.ToolCall
		stopped string
		want    string
	}{
		{"kill switch", localSubject(), call, "by alice", "by alice"},
		{"unknown tool", localSubject(), model.ToolCall{Name: "no.such"}, "", "not offered"},
		{"registered but not offered", with(localSubject(), func(s *Subject) { s.Offered = NewSet("memory.read") }), call, "", "memory.read"},
		{"nothing offered", with(localSubject(), func(s *Subject) { s.Offered = nil }), call, "", "not offered"},
		{"name of another case", localSubject(), model.ToolCall{Name: "Shell.Exec", Args: call.Args}, "", "not offered"},
		{"args are no JSON", localSubject(), model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{command:ls}`)}, "", "JSON"},
		{"key twice", localSubject(), model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{"command":"ls","command":"rm"}`)}, "", "twice"},
		{"args against the schema", localSubject(), model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{"command":["ls"]}`)}, "", "schema"},
		{"extra argument", localSubject(), model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{"command":"ls","sandbox":false}`)}, "", "sandbox"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnforcer(t, func(cfg *EnforcerConfig) {
				cfg.Stopped = func() string { return c.stopped }
				cfg.Policies = policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) {
					t.Error("a policy was asked")
					return policy.Restrictions{}, nil
				})
			})
			v := e.enforce(t.Context(), c.subject, c.call)
			if v.Action != Deny || !strings.Contains(v.Refusal, c.want) {
				t.Errorf("decision %s, refusal %q; want denied with %q", v.Action, v.Refusal, c.want)
			}
		})
	}
}

func TestEnforceTellsPoliciesTheFacts(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var got policy.ToolFacts
	e := newEnforcer(t, func(c *EnforcerConfig) {
		c.Now = func() time.Time { return now }
		c.Seed = func() int64 { return 42 }
		c.Policies = policyFunc(func(f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
			got = f
			return policy.Restrictions{}, []policy.Record{{Policy: "a", Digest: "1"}}
		})
	})
	s := with(channelSubject(), func(s *Subject) {
		s.Labels = []string{"web:example.com"}
		s.CallsInTurn, s.Used = 3, policy.Usage{Turns: 7}
		s.Sandbox.Configured = true
	})
	v := e.enforce(t.Context(), s, model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{ "command" : "ls" }`)})
	if got.Tool != "shell.exec" || got.Effect != "execute" || string(got.Args) != `{"command":"ls"}` || !got.Sandboxed ||
		got.CallsInTurn != 3 || got.Used.Turns != 7 || got.Seed != 42 || !got.Now.Equal(now) || got.Role != "member" ||
		got.Door != "channel" || got.Agent != "coder" || got.Session != "irc:#x:coder" || len(got.Labels) != 1 || got.Message.Sender.ID != "bob" {
		t.Errorf("facts %+v", got)
	}
	if string(v.Args) != `{"command":"ls"}` || len(v.Records) != 1 || v.Policy == "" {
		t.Errorf("decision %+v", v)
	}
	e.config.Policies = policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) {
		return policy.Restrictions{}, []policy.Record{{Policy: "a", Digest: "2"}}
	})
	if again := e.enforce(t.Context(), s, model.ToolCall{Name: "shell.exec", Args: argsFor("shell.exec")}); again.Policy == v.Policy {
		t.Error("another policy has the same digest")
	}
}

func TestEnforceFailsClosed(t *testing.T) {
	call := model.ToolCall{Name: "memory.read"}
	t.Run("a policy panics", func(t *testing.T) {
		e := newEnforcer(t, func(c *EnforcerConfig) {
			c.Policies = policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) { panic("boom") })
		})
		v := e.enforce(t.Context(), channelSubject(), call)
		if v.Action != Deny || strings.Contains(v.Refusal, "boom") || v.Refusal == "" {
			t.Errorf("decision %s, refusal %q; want denied without the panic's text", v.Action, v.Refusal)
		}
	})
	t.Run("the turn ends while a policy decides", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEnforcer(t, func(c *EnforcerConfig) {
			c.Policies = policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) {
				cancel()
				return policy.Restrictions{}, nil
			})
		})
		if v := e.enforce(ctx, channelSubject(), call); v.Action != Deny {
			t.Errorf("decision %s, want denied", v.Action)
		}
	})
	t.Run("no policies are none", func(t *testing.T) {
		if v := newEnforcer(t, nil).enforce(t.Context(), channelSubject(), call); v.Action != Run {
			t.Errorf("decision %s, refusal %q", v.Action, v.Refusal)
		}
	})
}

func TestEnforcerWithAnotherRegistry(t *testing.T) {
	e := newEnforcer(t, nil)
	clone := e.config.Registry.Clone()
	clone.Remove("memory.read")
	call := model.ToolCall{Name: "memory.read"}
	if v := e.With(clone).enforce(t.Context(), channelSubject(), call); v.Action != Deny {
		t.Errorf("tool that the clone lacks: %s", v.Action)
	}
	if v := e.enforce(t.Context(), channelSubject(), call); v.Action != Run {
		t.Errorf("tool that the shared registry has: %s", v.Action)
	}
}

// strictness orders actions.
func strictness(a Action) int {
	return map[Action]int{Run: 0, Ask: 1, Deny: 2}[a]
}

func drawSubject(t *rapid.T) Subject {
	s := channelSubject()
	s.Local = rapid.Bool().Draw(t, "local")
	s.Approve = rapid.SampledFrom([]string{"", ApproveShell, ApproveNone}).Draw(t, "approve")
	s.Sandbox = SandboxState{
		Configured:    rapid.Bool().Draw(t, "configured"),
		Name:          rapid.SampledFrom([]string{"", "a"}).Draw(t, "name"),
		Names:         rapid.SliceOfDistinct(rapid.SampledFrom([]string{"", "a", "b"}), rapid.ID).Draw(t, "names"),
		OnUnavailable: rapid.SampledFrom([]string{"", UnavailableDeny, UnavailableHost}).Draw(t, "on unavailable"),
	}
	if rapid.Bool().Draw(t, "engine down") {
		s.Sandbox.Unavailable = func() error { return errors.New("down") }
	}
	return s
}

func drawRestrictions(t *rapid.T, label string) policy.Restrictions {
	r := policy.Restrictions{
		Deny:      rapid.Float64Range(0, 1).Draw(t, label+" deny") < 0.2,
		Ask:       rapid.Bool().Draw(t, label+" ask"),
		Sandboxes: rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "unknown"})).Draw(t, label+" sandboxes"),
	}
	r.Sandbox = len(r.Sandboxes) > 0
	return r
}

func joined(a, b policy.Restrictions) policy.Restrictions {
	return policy.Restrictions{
		Deny: a.Deny || b.Deny, Ask: a.Ask || b.Ask, Sandbox: a.Sandbox || b.Sandbox,
		Sandboxes: append(append([]string{}, a.Sandboxes...), b.Sandboxes...),
	}
}

// TestMorePoliciesNeverLoosen checks the promise of Enforce: whatever a further policy says, the decision is as strict or stricter,
// and a call that belonged into a sandbox stays in the same one.
func TestMorePoliciesNeverLoosen(t *testing.T) {
	var current policy.Restrictions
	e := newEnforcer(t, func(c *EnforcerConfig) {
		c.Policies = policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) { return current, nil })
	})
	rapid.Check(t, func(t *rapid.T) {
		s := drawSubject(t)
		name := rapid.SampledFrom(offerAll.Names()).Draw(t, "tool")
		call := model.ToolCall{Name: name, Args: argsFor(name)}
		a, b := drawRestrictions(t, "first"), drawRestrictions(t, "second")
		decide := func(r policy.Restrictions) Decision {
			current = r
			return e.enforce(context.Background(), s, call)
		}
		before, after, swapped := decide(a), decide(joined(a, b)), decide(joined(b, a))
		if strictness(after.Action) < strictness(before.Action) {
			t.Fatalf("%+v: %s; with %+v besides: %s", a, before.Action, b, after.Action)
		}
		if before.Sandbox && after.Action != Deny && (!after.Sandbox || after.SandboxName != before.SandboxName) {
			t.Fatalf("%+v: in sandbox %q; with %+v besides: sandbox %v %q", a, before.SandboxName, b, after.Sandbox, after.SandboxName)
		}
		if after.Action != swapped.Action || after.Where != swapped.Where {
			t.Fatalf("%s at %q in one order, %s at %q in the other", after.Action, after.Where, swapped.Action, swapped.Where)
		}
	})
}
