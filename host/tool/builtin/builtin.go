// Package builtin holds the tools that come with Flynn: commands and processes,
// files, web pages, memory.
//
// Start with Register. A tool here does one thing and describes the outcome to a model. tool.Enforcer decides
// before it whether it may run, and tool.Runner after it how much of the result the model gets.
package builtin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/search"
)

// Config configures the tools.
type Config struct {
	// Memory keeps the notes; without it there are no memory tools.
	Memory memory.Notes
	// MaxNotes bounds the notes of one scope; nil or 0 is no bound.
	MaxNotes func() int
	Web      WebConfig
	Search   search.Services
	// Results are the results of which models got a part; without them there is no result.read.
	Results turnlog.Results
	// Keep stores attached files; without it there is no message.attach.
	Keep Keep
}

// Register adds the built-in tools to a registry.
func Register(r *tool.Registry, c Config) error {
	tools := []tool.Tool{
		shellExec(),
		processStart(), processList(), processOutput(), processKill(),
		fileRead(), fileWrite(), fileEdit(), fileList(),
		webFetch(c.Web), webSearch(c.Search), thinkHard(),
	}
	if c.Results != nil {
		tools = append(tools, resultRead(c.Results))
	}
	if c.Memory != nil {
		m := notes{c.Memory, c.MaxNotes}
		if m.max == nil {
			m.max = func() int { return 0 }
		}
		tools = append(tools, memoryRead(m), memoryWrite(m), memorySearch(m), memoryForget(m))
	}
	if c.Keep != nil {
		tools = append(tools, messageAttach(c.Keep))
	}
	for _, t := range tools {
		if err := r.RegisterOwn(t); err != nil {
			return err
		}
	}
	return nil
}

// function is a tool made of a spec and a function over its decoded arguments.
type function[A any] struct {
	spec tool.Spec
	rest string
	run  func(ctx context.Context, call tool.Call, args A) (tool.Result, error)
}

var (
	_ tool.Tool  = function[struct{}]{}
	_ tool.Pager = function[struct{}]{}
)

func (f function[A]) Spec() tool.Spec { return f.spec }

func (f function[A]) Rest() string { return f.rest }

func (f function[A]) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args A
	if err := json.Unmarshal(call.Args, &args); err != nil {
		// The schema accepted it, so this is a number that fits no Go type and the like.
		return tool.Failure("the arguments do not fit: %v", err), nil
	}
	return f.run(ctx, call, args)
}

// outcome returns the end of the call as an error, and any other error as a Result for the model.
func outcome(err error) (tool.Result, error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return tool.Result{}, err
	}
	return tool.Failure("%v", err), nil
}

// record encodes a typed record for people.
func record(v any) json.RawMessage {
	raw, err := jsonform.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
