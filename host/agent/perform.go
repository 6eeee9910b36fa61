package agent

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

// performer runs calls that may run: it gets the machine that they act on, tells people what keeps them waiting, and shortens what comes
// back. Several calls may be with it at a time, each on a goroutine of its own; but for callbacks it changes nothing of the turn.
type performer struct {
	*recorder
	*publisher
	*identity
	tools    Tools
	outbox   Outbox
	tasks    task.Service // for what the host asks models
	patience time.Duration
	quiet    time.Duration
	silent   bool // nobody is told anything before the answer
	// callbacks are what calls that run side by side have done on the turn's own goroutine; nil while none do.
	callbacks chan func()
	// helper returns what answers the calls of a program, or nil.
	helper func(parent model.ToolCall) tool.Helper
}

func (t *turn) newPerformer() *performer {
	return &performer{
		recorder: t.recorder, publisher: t.publisher, identity: t.identity, tools: t.cfg.Tools, outbox: t.cfg.Outbox, tasks: t.hostTasks(),
		patience: t.cfg.Patience, quiet: t.cfg.Quiet, silent: t.silent,
	}
}

// refused is the result of a call that may not run.
func (p *performer) refused(ctx context.Context, v tool.Decision) tool.Result {
	return p.tools.Run(ctx, v, tool.Call{})
}

// toolCall is a call with what its tool is told of the turn as it stands.
func (p *performer) toolCall(v tool.Decision, c model.ToolCall) tool.Call {
	return tool.Call{
		ID: c.ID, Name: c.Name, Args: v.Args, Session: p.row.Session, Workspace: p.home(), Agent: p.agent.Name, Sender: p.row.Sender, Labels: p.session.labels,
		Turn: p.row.ID, Persons: p.gen.persons(p.row.Sender), Private: p.private(), Owner: p.role() == route.Owner,
		Progress: func(b []byte) {
			p.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: string(b)})
		},
		Say: func(text string) { p.publish(message.Event{Kind: message.TextDelta, Text: text}) },
	}
}

// perform runs an allowed call. It may be beside others, and touches nothing of the turn that changes. Trouble of the host becomes a
// result: the model and the person are told, the host lives on.
func (p *performer) perform(ctx context.Context, v tool.Decision, c model.ToolCall, call tool.Call) tool.Result {
	var w waiting
	ctx, stop := p.noticed(ctx, c, &w)
	defer stop()
	m, err := p.awaitMachine(ctx, v, &w)
	if err != nil {
		return tool.Result{Text: "the call was not run: " + err.Error(), IsError: true}
	}
	call.Helper = p.helper(c)
	call.Machine, call.Place = m, tool.PlaceLabels(v.Where, !v.Sandbox || !p.gen.Offline[v.SandboxName])
	call.MaxText, call.Think = p.maxResult(c), p.think
	return p.refine(ctx, c, p.accompany(ctx, c, call, func(call tool.Call) tool.Result { return p.tools.Run(ctx, v, call) }))
}

// machine is where the call acts; nil where it acts on none, so that a note or a web page opens no workspace.
func (p *performer) machine(ctx context.Context, v tool.Decision) (machine.Machine, error) {
	switch {
	case !v.OnMachine():
		return nil, nil
	case v.Sandbox:
		return p.machines.Sandbox(ctx, p.home(), v.SandboxName)
	}
	return p.machines.Host(p.home())
}

// think answers a question of the tool think.hard.
func (p *performer) think(ctx context.Context, question string) (string, error) {
	answer, err := p.tasks.Think(ctx, question)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("the model for hard questions failed", "turn", p.row.ID, "error", err)
		return "", plainError("no answer: " + forPeople(err))
	}
	return answer, err
}
