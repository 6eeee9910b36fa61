package tool

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

// fakeTool is a tool whose work is a function.
type fakeTool struct {
	spec Spec
	run  func(ctx context.Context, call Call) (Result, error)
}

func (f fakeTool) Spec() Spec { return f.spec }

func (f fakeTool) Run(ctx context.Context, call Call) (Result, error) {
	if f.run == nil {
		return Result{Text: "ran " + string(call.Args)}, nil
	}
	return f.run(ctx, call)
}

func named(name string) fakeTool {
	return fakeTool{spec: Spec{Name: name, Effect: Read}}
}

// The tools of the tests: one of each kind that a rule tells apart.
var (
	shellTool = fakeTool{spec: Spec{
		Name: "shell.exec", Effect: Execute, Machine: true,
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{"command":{"type":"string"}}}`),
	}}
	fileTool   = fakeTool{spec: Spec{Name: "file.write", Effect: Write, Machine: true}}
	memoryTool = fakeTool{spec: Spec{Name: "memory.read", Effect: Read}}
	pluginTool = fakeTool{spec: Spec{Name: "plugin.run", Effect: Execute}}
	codeTool   = fakeTool{spec: Spec{Name: "code.run", Effect: Execute, Own: true}}
)

func newRegistry(t testing.TB, tools ...Tool) *Registry {
	t.Helper()
	r := NewRegistry()
	for _, tool := range tools {
		if err := r.Register(tool); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func newEnforcer(t testing.TB, change func(*EnforcerConfig)) *Enforcer {
	t.Helper()
	c := EnforcerConfig{Registry: newRegistry(t, shellTool, fileTool, memoryTool, pluginTool, codeTool)}
	if change != nil {
		change(&c)
	}
	e, err := NewEnforcer(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// policyFunc answers for a chain of policies.
type policyFunc func(f policy.ToolFacts) (policy.Restrictions, []policy.Record)

func (p policyFunc) Tool(_ context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	return p(f)
}

func always(r policy.Restrictions) Policies {
	return policyFunc(func(policy.ToolFacts) (policy.Restrictions, []policy.Record) {
		return r, []policy.Record{{Policy: "p", Digest: "d"}}
	})
}
