package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// anyTool is a tool by its spec alone.
type anyTool struct{ spec tool.Spec }

func (a anyTool) Spec() tool.Spec                                   { return a.spec }
func (anyTool) Run(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }

// TestNoRightsAreGainedByDelegating draws teams, frontends and policies, and compares every call of every delegate down a chain with the
// same call of those above it.
func TestNoRightsAreGainedByDelegating(t *testing.T) {
	reg := tool.NewRegistry()
	specs := []tool.Spec{
		{Name: "shell.exec", Effect: tool.Execute, Machine: true}, {Name: "file.write", Effect: tool.Write, Machine: true},
		{Name: "memory.read", Effect: tool.Read}, {Name: "message.attach", Effect: tool.Write, Machine: true},
	}
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
		if err := reg.Register(anyTool{s}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tl := range DelegationTools() {
		all = append(all, tl.Spec().Name)
		if err := reg.Register(tl); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"a", "b", "c"}
	strict := map[tool.Action]int{tool.Run: 0, tool.Ask: 1, tool.Deny: 2}
	rapid.Check(t, func(t *rapid.T) {
		some := func(from []string, label string) []string {
			return rapid.SliceOfDistinct(rapid.SampledFrom(from), rapid.ID).Draw(t, label)
		}
		tight := rapid.Bool().Draw(t, "box is stricter")
		gen := &Generation{
			Registry: reg, Agents: map[string]*Agent{}, Names: names, Sandboxes: []string{"", "box"},
			Roles: route.NewRoles(config.Access{}, route.AllProved), LocalFrontends: rapid.Bool().Draw(t, "local frontends"),
			OnUnavailable: rapid.SampledFrom([]string{"deny", "host"}).Draw(t, "on unavailable"),
			Delegation:    Delegation{MaxDepth: rapid.IntRange(1, 3).Draw(t, "depth"), MaxFanout: 2},
			Limits:        Limits{Steps: 9, ToolCalls: 9, Tokens: 900, Time: time.Minute},
			Strictness:    stricter(func(s, o string) bool { return s == o || tight && s == "box" }),
		}
		of := map[string]policy.Restrictions{}
		for _, n := range names {
			a := &Agent{
				Name: n, Offered: tool.NewSet(some(all, n+" offered")...), Delegates: some(names, n+" delegates"),
				Sandboxed: rapid.Bool().Draw(t, n+" sandboxed"), Sandbox: rapid.SampledFrom([]string{"", "box"}).Draw(t, n+" sandbox"),
				Approve: rapid.SampledFrom([]string{"", "shell", "none"}).Draw(t, n+" approve"),
			}
			a.Tools = reg.ForModel(a.Offered)
			gen.Agents[n] = a
			of[n] = policy.Restrictions{Deny: rapid.IntRange(0, 9).Draw(t, n+" denied") == 0, Ask: rapid.Bool().Draw(t, n+" asked")}
		}
		r := NewRunner((&around{}).config())
		enforcer, err := tool.NewEnforcer(tool.EnforcerConfig{
			Registry: reg, Policies: chain{tool: func(f policy.ToolFacts) policy.Restrictions { return of[f.Agent] }},
		})
		if err != nil {
			t.Fatal(err)
		}
		frontend := rapid.SampledFrom([]string{"irc", "web"}).Draw(t, "door")
		above := r.newTurn(gen, nil, gen.Agents["a"], message.Message{Channel: frontend, Sender: message.Sender{ID: "ann"}}, turnlog.Turn{
			ID: store.NewID(time.Now()), Session: message.SessionKey(frontend + ":c:a"), Agent: "a", Channel: frontend, Sender: message.NewSenderKey(frontend, "ann"),
		}, nil)
		above.session = &session{labels: some([]string{"web:x", "sender:guest"}, "labels")}
		slices.Sort(above.session.labels)
		for range 3 {
			if !above.agent.Offered.Has(DelegateTool) || len(above.chain()) > gen.Delegation.MaxDepth || len(above.agent.Delegates) == 0 {
				return
			}
			made, err := above.newChild("c1", delegateArgs{Agent: rapid.SampledFrom(above.agent.Delegates).Draw(t, "delegate"), Task: "x"})
			if err != nil {
				t.Fatal(err)
			}
			child := made.turn
			for _, name := range all {
				call := model.ToolCall{Name: name, Args: json.RawMessage(map[string]string{
					DelegateTool: `{"agent":"a","task":"x"}`, ResultTool: `{"id":"x"}`,
				}[name])}
				may, _, errMay := enforcer.DryRun(context.Background(), child.subject(t.Context()), call, nil)
				mightHave, _, errHave := enforcer.DryRun(context.Background(), above.subject(t.Context()), call, nil)
				if err := errors.Join(errMay, errHave); err != nil {
					t.Fatal(err)
				}
				if strict[may.Action] < strict[mightHave.Action] {
					t.Fatalf("%s: %s for %s, %s for its parent", name, may.Action, child.subject(t.Context()).Chain(), mightHave.Action)
				}
				if mightHave.Sandbox && may.Action != tool.Deny && !may.Sandbox {
					t.Fatalf("%s: %s leaves the sandbox of its parent", name, child.subject(t.Context()).Chain())
				}
			}
			for _, n := range child.agent.Delegates {
				if !slices.Contains(above.agent.Delegates, n) {
					t.Fatalf("%s may give work to %s, its parent may not", child.subject(t.Context()).Chain(), n)
				}
			}
			for _, m := range child.agent.Tools {
				if !above.agent.Offered.Has(m.Name) {
					t.Fatalf("%s is offered %s", child.subject(t.Context()).Chain(), m.Name)
				}
			}
			for _, l := range above.session.labels {
				if !slices.Contains(child.session.labels, l) {
					t.Fatalf("%s is gone", l)
				}
			}
			above = child
		}
	})
}

// TestProgramsTakeNoWork: an agent of kind cli is nobody's delegate, also where its work was begun before that was said.
func TestProgramsTakeNoWork(t *testing.T) {
	gen := &Generation{Delegation: Delegation{MaxDepth: 3}, Agents: map[string]*Agent{
		"lead": {Name: "lead", Delegates: []string{"codex", "helper"}}, "codex": {Name: "codex", Kind: KindCLI}, "helper": {Name: "helper", Kind: KindCode},
	}}
	if _, _, err := gen.chainOf([]transcript.Link{{Agent: "lead"}}, "codex"); err == nil || forPeople(err) != `agent "codex" runs an agent CLI with its own tools, `+
		`which cannot be limited to the rights of agent "lead".` {
		t.Errorf("%v", err)
	}
	if _, _, err := gen.chainOf([]transcript.Link{{Agent: "lead"}}, "helper"); err != nil {
		t.Errorf("a code agent: %v", err)
	}
	if _, a, err := gen.chainOf(nil, "codex"); err != nil || a.Name != "codex" {
		t.Errorf("spoken to by people: %v", err)
	}
}
