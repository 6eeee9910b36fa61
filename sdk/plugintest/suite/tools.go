package suite

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// toolChecks are about tool providers.
func toolChecks() []Check {
	return []Check{
		{Name: "tools-list", Run: toolsList, Next: "give each tool a name of its own and a JSON Schema that is an object"},
		{Name: "tools-watch", Run: toolsWatch, Next: "send a revision as soon as Watch is called, or leave watch out of the capabilities"},
		{Name: "call", Run: callWorks, Next: "end each call with one result frame and nothing behind it"},
		{Name: "call-unknown", Run: callUnknown, Next: "answer an unknown tool with a result that is an error, INVALID_ARGUMENT or NOT_FOUND"},
		{Name: "call-arguments", Run: callArguments, Next: "answer arguments that do not fit with a result that is an error or INVALID_ARGUMENT"},
		{Name: "call-cancel", Run: callCancel, Next: "stop a tool when its call is cancelled, and go on with the next"},
	}
}

func toolsList(t *T) {
	out, err := t.ready().tools.List(t.ctx, wire.Grease(&toolv1.ListRequest{}))
	if err != nil {
		t.Fail("list: %w", err)
	}
	if n := len(out.GetTools()); n > bounds.MaxTools {
		t.Fail("there are %d tools, at most %d", n, bounds.MaxTools)
	}
	seen := map[string]bool{}
	for _, tool := range out.GetTools() {
		t.must(bounds.Tool(tool.GetName(), tool.GetInputSchemaJson(), tool.GetOutputSchemaJson()))
		if seen[tool.GetName()] {
			t.Fail("tool %s is there twice", tool.GetName())
		}
		seen[tool.GetName()] = true
	}
}

func toolsWatch(t *T) {
	p := t.ready()
	if !p.describe().GetTools().GetWatch() {
		t.Skip("the provider does not declare watch")
	}
	ctx, cancel := t.soon()
	defer cancel()
	st, err := p.tools.Watch(ctx, wire.Grease(&toolv1.WatchRequest{}))
	if err == nil {
		_, err = st.Recv()
	}
	if err != nil {
		t.Fail("watch: no revision came: %w", err)
	}
}

// call makes one call.
func (p *process) call(ctx context.Context, tool string, arguments []byte) (*toolv1.Result, error) {
	return wire.Call(ctx, p.tools, &toolv1.CallRequest{CallId: "1", IdempotencyKey: "1", Tool: tool, ArgumentsJson: arguments}, nil)
}

// working returns the calls that succeed: calling arbitrary tools could do harm.
func (t *T) working() []Call {
	if len(t.plugin.Calls) == 0 {
		t.Skip("%s names no calls that succeed", t.plugin.Source)
	}
	return t.plugin.Calls
}

// arguments returns the call's arguments as JSON.
func (t *T) arguments(c Call) []byte {
	if c.Arguments == nil {
		return []byte("{}")
	}
	text, err := json.Marshal(c.Arguments)
	t.must(err)
	return text
}

func callWorks(t *T) {
	calls := t.working()
	p := t.ready()
	for _, c := range calls {
		r, err := p.call(t.ctx, c.Tool, t.arguments(c))
		if err != nil {
			t.Fail("call %s: %w", c.Tool, err)
		}
		if r.GetIsError() {
			t.Fail("call %s: the tool failed: %.300s", c.Tool, r.GetText())
		}
	}
}

// refusesCall makes a call that must fail with a proper error.
func (p *process) refusesCall(what, tool, arguments string) {
	ctx, cancel := p.t.soon()
	defer cancel()
	r, err := p.call(ctx, tool, []byte(arguments))
	if err == nil && !r.GetIsError() {
		p.t.Fail("%s: the call succeeds", what)
	}
	if c := status.Code(err); err != nil && c != codes.InvalidArgument && c != codes.NotFound {
		p.t.Fail("%s: the call answers %w", what, err)
	}
	p.alive()
}

func callUnknown(t *T) {
	t.ready().refusesCall("a tool that is not there", "conform-no-such-tool", "{}")
}

func callArguments(t *T) {
	tool := t.working()[0].Tool
	p := t.ready()
	for _, arguments := range []string{"{", "\xff"} {
		p.refusesCall(fmt.Sprintf("tool %s with the arguments %q", tool, arguments), tool, arguments)
	}
}

func callCancel(t *T) {
	c := t.working()[0]
	p, arguments := t.ready(), t.arguments(c)
	t.cutOff("a call that is cancelled", func(ctx context.Context, _ int) error {
		_, err := p.call(ctx, c.Tool, arguments)
		return err
	})
	p.alive()
	if _, err := p.tools.List(t.ctx, &toolv1.ListRequest{}); err != nil {
		t.Fail("after calls that were cancelled: list: %w", err)
	}
}
