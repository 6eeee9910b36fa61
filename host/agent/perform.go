package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/search"
)

// performer runs admitted calls: it gets the machine on which a call acts, tells people what delays it, and shortens the result.
// Several calls may run at a time, each on a goroutine of its own; they change the turn only through callbacks.
type performer struct {
	*recorder
	*publisher
	*identity
	tools    Tools
	outbox   Outbox
	tasks    task.Service // calls models on behalf of the host
	patience time.Duration
	quiet    time.Duration
	silent   bool // send nothing before the answer
	// callbacks runs functions of parallel calls on the turn's goroutine; nil while no calls run in parallel.
	callbacks chan func()
	// helper returns the handler for a program's tool calls, or nil.
	helper func(parent model.ToolCall) tool.Helper

	pay       search.Pay
	begins    func(context.Context) error // returns when the call may begin
	snapshots Snapshots                   // nil: none are taken
	wrote     atomic.Bool                 // a call may have changed files
}

func (t *turn) newPerformer() *performer {
	return &performer{
		recorder: t.recorder, publisher: t.publisher, identity: t.identity, tools: t.cfg.Tools, outbox: t.cfg.Outbox, tasks: t.hostTasks(), snapshots: t.cfg.Snapshots,
		pay:      t.taskModels().pay,
		begins:   t.cfg.Ownership.Begin,
		patience: t.cfg.Patience, quiet: t.cfg.Quiet, silent: t.silent,
	}
}

// refused returns the result of a call that may not run.
func (p *performer) refused(ctx context.Context, v tool.Decision) tool.Result {
	return p.tools.Run(ctx, v, tool.Call{})
}

// toolCall returns a call with the facts of the turn that its tool gets.
func (p *performer) toolCall(v tool.Decision, c model.ToolCall) tool.Call {
	return tool.Call{
		ID: c.ID, Name: c.Name, Args: v.Args, Session: p.row.Session, Workspace: p.workspaceKey(), Agent: p.agent.Name, Sender: p.row.Sender, Labels: p.session.labels,
		Turn: p.row.ID, Persons: p.gen.persons(p.row.Sender), Private: p.private(), Owner: p.role() == route.Owner,
		Progress: func(b []byte) {
			p.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: string(b)})
		},
		Say: func(text string) { p.publish(message.Event{Kind: message.TextDelta, Text: text}) },
	}
}

// perform runs an admitted call, possibly beside others, and reads only constant parts of the turn. A failure of the host becomes an
// error result, so that the model and the person see it.
func (p *performer) perform(ctx context.Context, v tool.Decision, c model.ToolCall, call tool.Call) tool.Result {
	var w waiting
	ctx, stop := p.noticed(ctx, c, &w)
	defer stop()
	m, err := p.awaitMachine(ctx, v, &w)
	if err != nil {
		return tool.Result{Text: "the call was not run: " + err.Error(), IsError: true}
	}
	p.keepFiles(ctx, v)
	if err := p.begins(ctx); err != nil {
		return tool.Result{Text: "the call was not run: " + err.Error(), IsError: true}
	}
	call.Helper = p.helper(c)
	call.Machine, call.Place = m, tool.PlaceLabels(v.Where, !v.Sandbox || !p.gen.Offline[v.SandboxName])
	call.MaxText, call.Think, call.Pay = p.maxResult(c), p.think, p.pay
	moved := ""
	if m != nil {
		moved = p.moved(ctx)
	}
	r := p.refine(ctx, c, p.accompany(ctx, c, call, func(call tool.Call) tool.Result { return p.tools.Run(ctx, v, call) }))
	r.Text = moved + r.Text
	return r
}

// moved tells the person what has stayed on another host, and returns the same line for the model; empty if there is nothing to tell.
func (p *performer) moved(ctx context.Context) string {
	line := p.machines.Moved(ctx, p.workspaceKey())
	if line == "" {
		return ""
	}
	machine.Notice(ctx, line)
	if !p.silent && route.Frontend(p.row.Channel) == route.FrontendChannel {
		p.onTurn(ctx, func() { p.tell(ctx, line) })
	}
	return "[" + line + "]\n"
}

// machine returns the machine on which the call acts, or nil if it needs none, so that a note or a web page opens no workspace.
func (p *performer) machine(ctx context.Context, v tool.Decision) (machine.Machine, error) {
	switch {
	case !v.OnMachine():
		return nil, nil
	case v.Sandbox:
		return p.machines.Sandbox(ctx, p.workspaceKey(), v.SandboxName)
	}
	return p.machines.Host(p.workspaceKey())
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
