package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// noting is a tool that notes in which workspace each agent calls it.
type noting struct{ by map[string]string }

func (n noting) Spec() tool.Spec {
	return tool.Spec{Name: "thing.note", Description: "notes", Effect: tool.Write, Schema: json.RawMessage(`{"type":"object"}`)}
}

func (n noting) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	n.by[c.Agent] = string(c.Workspace)
	return tool.Result{Text: "noted"}, nil
}

// TestDelegatesShareTheWorkspace: what is locked by the workspace is locked for a turn and for all that it delegates.
func TestDelegatesShareTheWorkspace(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("background=%v", background), func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			n := noting{map[string]string{}}
			for _, tl := range append(DelegationTools(), n) {
				if err := h.gen.Registry.Register(tl); err != nil {
					t.Fatal(err)
				}
			}
			h.gen.Limits.ToolCalls = 20 // of which the background gets a share
			h.gen.Delegation = Delegation{MaxDepth: 2, MaxFanout: 2}
			for _, a := range h.gen.Agents {
				a.Offered = tool.NewSet("thing.note", DelegateTool, ResultTool)
			}
			h.gen.Agents["helper"].Delegates = []string{"other"}
			h.gen.Models = script(func(_ context.Context, req model.Request) (model.Response, error) {
				last := req.Messages[len(req.Messages)-1]
				switch {
				case len(last.Results) > 0:
					return say("done"), nil
				case last.Text == "go":
					r := callTool("c1", "thing.note", `{}`)
					r.Message.Calls = append(r.Message.Calls, model.ToolCall{
						ID: "c2", Name: DelegateTool, Args: json.RawMessage(fmt.Sprintf(`{"agent":"other","task":"note","background":%v}`, background)),
					})
					return r, nil
				case last.Text == "note":
					return callTool("c1", "thing.note", `{}`), nil
				}
				return say("heard"), nil
			})
			h.accept("ann", "go")
			h.work(t.Context())
			h.work(t.Context()) // the child in the background
			if n.by["helper"] == "" || n.by["helper"] != n.by["other"] {
				t.Errorf("the workspaces are %q", n.by)
			}
		})
	}
}
