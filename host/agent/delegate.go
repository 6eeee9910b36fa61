package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// The tools by which an agent delegates to another one.
const (
	DelegateTool = transcript.DelegateTool
	ResultTool   = "agent.result"
)

// maxTask bounds the text of a task, in characters.
const maxTask = 32 << 10

// DelegationTools returns the tools of this package. They act on the turn that calls them.
func DelegationTools() []tool.Tool { return []tool.Tool{delegateTool{}, resultTool{}} }

// delegateTool is agent.delegate.
type delegateTool struct{}

type delegateArgs struct {
	Agent      string `json:"agent"`
	Task       string `json:"task"`
	Background bool   `json:"background"`
}

// Spec implements tool.Tool.
func (delegateTool) Spec() tool.Spec {
	return tool.Spec{
		Name: DelegateTool, Effect: tool.Write, // at least; each call of the delegate is decided about separately
		Description: "Give a task to another agent, and get its answer. It knows nothing of this conversation but the task, works in the same " +
			"workspace, and may do no more than you. With background it works on while you answer; what it says comes as a message later.",
		Schema: delegateSchema(nil),
	}
}

// delegateSchema returns the schema of agent.delegate, with the names of the agents if they are known.
func delegateSchema(agents []string) json.RawMessage {
	agent := map[string]any{"type": "string", "minLength": 1}
	if len(agents) > 0 {
		agent["enum"] = agents
	}
	return transcript.Encode(map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"agent", "task"},
		"properties": map[string]any{
			"agent":      agent,
			"task":       map[string]any{"type": "string", "minLength": 1, "maxLength": maxTask, "description": "all that it has to know"},
			"background": map[string]any{"type": "boolean", "description": "do not wait for the answer; false if left out"},
		},
	})
}

// TellDelegates puts the names of the delegates into the description of agent.delegate.
func TellDelegates(tools []model.Tool, delegates []string) []model.Tool {
	out := slices.Clone(tools)
	for i := range out {
		if out[i].Name == DelegateTool {
			out[i].Schema = delegateSchema(delegates)
		}
	}
	return out
}

// turnKey is the context key of the turn that makes a call.
type turnKey struct{}

func withTurn(ctx context.Context, t *turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// refuse returns an error result.
func refuse(format string, args ...any) (tool.Result, error) {
	return tool.Result{Text: fmt.Sprintf(format, args...), IsError: true}, nil
}

// Run implements tool.Tool.
func (delegateTool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args delegateArgs
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return refuse("the arguments do not fit: %v", err)
	}
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return refuse("only an agent in a turn of its own can delegate")
	}
	if why := t.mayNotDelegate(args); why != "" {
		return refuse("%s", why)
	}
	return t.delegate(ctx, call.ID, args)
}

// mayNotDelegate returns why a delegation is refused, or "".
func (t *turn) mayNotDelegate(args delegateArgs) string {
	d := t.gen.Delegation
	switch {
	case !slices.Contains(t.agent.Delegates, args.Agent):
		return fmt.Sprintf("you may not give work to %q; these may be asked: %s", args.Agent, strings.Join(t.agent.Delegates, ", "))
	case len(t.chain()) > d.MaxDepth:
		return fmt.Sprintf("the delegation chain has reached its limit of %d agents; do the task yourself", d.MaxDepth)
	case t.state.Delegations() > d.MaxFanout:
		return fmt.Sprintf("this turn has used its %d delegations; continue with what you have", d.MaxFanout)
	case args.Background && t.delegated != nil:
		return "only the agent that people speak to can delegate in the background; leave background out"
	}
	return ""
}

// delegate begins a child.
func (t *turn) delegate(ctx context.Context, call string, args delegateArgs) (tool.Result, error) {
	c, err := t.newChild(call, args)
	if err != nil {
		return refuse("%s", forPeople(err))
	}
	return t.children.Start(ctx, c)
}

// pickUp brings a call to a result that an earlier process started. If the call made a child, the child continues or has ended; any
// other call is reported as interrupted and not run again.
func (t *turn) pickUp(ctx context.Context, start transcript.ToolStart) error {
	if start.Tool != DelegateTool {
		t.calls.result(start.Interrupted())
		return nil
	}
	row, err := patiently(ctx, t.Runner, func() (turnlog.Turn, error) { return t.cfg.Store.Child(ctx, t.row.ID, start.Call) })
	if errors.Is(err, store.ErrNotFound) {
		t.calls.result(start.Interrupted())
		return nil
	}
	if err != nil {
		return fmt.Errorf("find a delegated turn: %w", err)
	}
	c, broken, err := t.readChild(ctx, t.gen, t.policies, row, t)
	if err != nil {
		return err
	}
	res, err := t.children.TakeUp(ctx, c, broken)
	if ctx.Err() != nil && !ended(ctx) {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	t.calls.result(transcript.ToolResult{ToolStart: start, Result: res})
	return t.commit(ctx)
}
