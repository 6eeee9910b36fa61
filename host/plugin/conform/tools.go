package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/proto/toolv1"
)

// toolChecks are about tool providers.
func toolChecks() []check {
	frames := "end each call with one result frame and nothing behind it"
	return []check{
		{name: "tools-list", kind: plugin.Tools, run: toolsList, next: "give each tool a name of its own and a JSON Schema that is an object"},
		{name: "tools-watch", kind: plugin.Tools, run: toolsWatch, next: "send a revision as soon as Watch is called, or leave watch out of the capabilities"},
		{name: "call", kind: plugin.Tools, run: callWorks, next: frames},
		{name: "call-unknown", kind: plugin.Tools, run: callUnknown, next: "answer an unknown tool with a result that is an error, INVALID_ARGUMENT or NOT_FOUND"},
		{name: "call-arguments", kind: plugin.Tools, run: callArguments, next: "answer arguments that do not fit with a result that is an error or INVALID_ARGUMENT"},
		{name: "call-cancel", kind: plugin.Tools, run: callCancel, next: "stop a tool when its call is cancelled, and go on with the next"},
	}
}

func toolsList(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	list, err := s.tools.List(ctx, grease(&toolv1.ListRequest{}))
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return plugin.CheckTools(list)
}

func toolsWatch(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	d, err := s.describe(ctx)
	if err != nil {
		return err
	}
	if !d.GetTools().GetWatch() {
		return skip("the provider does not declare watch")
	}
	ctx, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	st, err := s.tools.Watch(ctx, grease(&toolv1.WatchRequest{}))
	if err == nil {
		_, err = st.Recv()
	}
	if err != nil {
		return fmt.Errorf("watch: no revision came: %w", err)
	}
	return nil
}

// calls makes one call and returns its result, having checked the order of the frames.
func (s *subject) calls(ctx context.Context, tool string, arguments []byte) (*toolv1.Result, error) {
	st, err := s.tools.Call(ctx, grease(&toolv1.CallRequest{CallId: "1", IdempotencyKey: "1", Tool: tool, ArgumentsJson: arguments}))
	if err != nil {
		return nil, err
	}
	var result *toolv1.Result
	for {
		frame, err := st.Recv()
		switch {
		case errors.Is(err, io.EOF) && result == nil:
			return nil, errors.New("the call ends without a result")
		case errors.Is(err, io.EOF):
			return result, nil
		case err != nil && result != nil:
			return nil, fmt.Errorf("after the result comes an error: %w", err)
		case err != nil:
			return nil, err
		case result != nil:
			return nil, errors.New("after the result comes another frame")
		}
		result = frame.GetResult()
		if result != nil && len(result.GetStructuredJson()) > 0 && !json.Valid(result.GetStructuredJson()) {
			return nil, errors.New("the structured result is not JSON")
		}
	}
}

func callWorks(ctx context.Context, b *bench) error {
	if len(b.kit.file.Calls) == 0 {
		return skip("%s names no [[calls]] that succeed", FileName)
	}
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	for _, c := range b.kit.file.Calls {
		arguments, err := json.Marshal(c.Arguments)
		if err != nil {
			return err
		}
		if c.Arguments == nil {
			arguments = []byte("{}")
		}
		r, err := s.calls(ctx, c.Tool, arguments)
		if err != nil {
			return fmt.Errorf("call %s: %w", c.Tool, err)
		}
		if r.GetIsError() {
			return fmt.Errorf("call %s: the tool failed: %.300s", c.Tool, r.GetText())
		}
	}
	return nil
}

// refusedCall makes a call that has to fail in order.
func (b *bench) refusedCall(ctx context.Context, s *subject, what, tool string, arguments []byte) error {
	call, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	r, err := s.calls(call, tool, arguments)
	if err == nil && !r.GetIsError() {
		return fmt.Errorf("%s: the call succeeds", what)
	}
	if c := status.Code(err); err != nil && c != codes.InvalidArgument && c != codes.NotFound {
		return fmt.Errorf("%s: the call answers %w", what, err)
	}
	return s.alive(ctx)
}

func callUnknown(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	return b.refusedCall(ctx, s, "a tool that is not there", "conform-no-such-tool", []byte("{}"))
}

func callArguments(ctx context.Context, b *bench) error {
	s, tool, err := b.someTool(ctx)
	if err != nil {
		return err
	}
	for _, arguments := range []string{"{", "\xff"} {
		if err := b.refusedCall(ctx, s, fmt.Sprintf("tool %s with the arguments %q", tool, arguments), tool, []byte(arguments)); err != nil {
			return err
		}
	}
	return nil
}

// someTool is a tool of which the conformance file says that it can be called, or the first of the list.
func (b *bench) someTool(ctx context.Context) (*subject, string, error) {
	s, err := b.ready(ctx)
	if err != nil {
		return nil, "", err
	}
	if calls := b.kit.file.Calls; len(calls) > 0 {
		return s, calls[0].Tool, nil
	}
	return nil, "", skip("%s names no [[calls]]: a call of just any tool could do harm", FileName)
}

func callCancel(ctx context.Context, b *bench) error {
	s, tool, err := b.someTool(ctx)
	if err != nil {
		return err
	}
	arguments, err := json.Marshal(b.kit.file.Calls[0].Arguments)
	if err != nil {
		return err
	}
	for i := range 20 {
		call, cancel := context.WithTimeout(ctx, time.Duration(i*i)*100*time.Microsecond)
		_, err := s.calls(call, tool, arguments)
		cancel()
		if err := code(err, "a call that is cancelled", codes.OK, codes.Canceled, codes.DeadlineExceeded); err != nil {
			return err
		}
	}
	if err := s.alive(ctx); err != nil {
		return err
	}
	if _, err := s.tools.List(ctx, &toolv1.ListRequest{}); err != nil {
		return fmt.Errorf("after calls that were cancelled: list: %w", err)
	}
	return nil
}
