package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

// Programs configures an agent of kind code. It answers with prose or with one program, and its model is offered one tool, which runs
// the program. Agent.Offered are the tools that its programs may call.
type Programs struct {
	// Tool is the name of the tool that runs a program. It takes the arguments language and program.
	Tool string
	// Languages are the languages that the tool takes.
	Languages []string
	// Available returns why no container for a program is available, or nil.
	Available func(ctx context.Context) error
	// HelperCalls bounds the tool calls of one program.
	HelperCalls int
	// Fenced offers the model no tool; it writes its programs as code blocks and gets their output as text.
	Fenced bool
}

// Prompt returns the text about programs that follows the agent's own prompt. helpers are the tools that programs may call.
func (p *Programs) Prompt(helpers []model.Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You solve tasks by writing programs. Answer either in prose, when you know the answer, or with exactly one program in %s",
		strings.Join(p.Languages, " or "))
	if p.Fenced {
		b.WriteString(" as the only fenced block of code of your answer, tagged with its language; tag code that is not to run as text")
	} else {
		b.WriteString(" by calling " + p.Tool)
	}
	b.WriteString(". It runs at once in a fresh container, and you are told what it printed and how it ended; then answer, or write the " +
		"next program. Nothing stays from one program to the next. Files that people sent, called attachments/NAME in the conversation, " +
		"are in/NAME for a program. What it writes to the folder out goes with your answer to the person.")
	if p.HelperCalls == 0 || len(helpers) == 0 {
		return b.String()
	}
	b.WriteString("\nA program may call tools by its module flynn: flynn.call(\"NAME\", argument=...) in Python, " +
		"require(\"flynn\").call(\"NAME\", {argument: ...}) in JavaScript. A call returns text, or throws with the reason. The tools, " +
		"each with the JSON Schema of its arguments:")
	for _, t := range helpers {
		fmt.Fprintf(&b, "\n- %s: %s %s", t.Name, t.Description, compact(t.Schema))
	}
	return b.String()
}

// compact removes the insignificant space from a schema.
func compact(schema json.RawMessage) string {
	text, _, err := jsonform.Canonical(schema)
	if err != nil {
		return ""
	}
	return string(text)
}

// mayRun checks whether a program can run, before a model is called.
func (p *Programs) mayRun(ctx context.Context) error {
	if p == nil {
		return plainError("this agent has no tool to run programs")
	}
	if err := p.Available(ctx); err != nil {
		return plainError("programs cannot be run: the sandbox is unavailable: " + machine.Reason(err))
	}
	return nil
}

// request rewrites a request for models without tools, if the agent is configured so.
func (p *Programs) request(req model.Request) model.Request {
	if p != nil && p.Fenced {
		req.Tools, req.Messages, req.Rough = nil, withoutCalls(req.Messages), 0
	}
	return req
}

// program turns a program that the model wrote as a code block into a tool call. If the model calls the tool itself, code blocks in its
// prose remain prose.
func (v *modelVoice) program(answer model.Response) model.Response {
	p := v.agent.Programs
	if p == nil || len(answer.Message.Calls) > 0 || v.hasCalled() {
		return answer
	}
	if found, ok := fencedProgram(answer.Message.Text); ok && slices.Contains(p.Languages, found.Language) {
		answer.Message.Calls = []model.ToolCall{{ID: fmt.Sprintf("%s%d", blockID, len(v.state.Answers)+1), Name: p.Tool, Args: found.args()}}
		answer.Stop = model.StopToolCalls
	}
	return answer
}

// blockID prefixes the ids of calls that were code blocks.
const blockID = "block_"

// hasCalled reports whether the model has called the tool itself in this turn.
func (v *modelVoice) hasCalled() bool {
	for _, e := range v.state.Answers {
		if slices.ContainsFunc(e.Message.Calls, func(c model.ToolCall) bool { return !strings.HasPrefix(c.ID, blockID) }) {
			return true
		}
	}
	return false
}

// withoutCalls rewrites calls and results as text, for models that have no tools.
func withoutCalls(ms []model.Message) []model.Message {
	out := make([]model.Message, 0, len(ms))
	for _, m := range ms {
		for _, c := range m.Calls {
			if _, written := fencedProgram(m.Text); !written {
				m.Text = strings.TrimSpace(m.Text + "\n" + fenced(c.Args))
			}
		}
		for _, r := range m.Results {
			m.Text = strings.TrimSpace(m.Text + "\nThe program's result:\n" + r.Text)
		}
		m.Calls, m.Results = nil, nil
		out = append(out, m)
	}
	return out
}

// shellTool is the tool that an agent must be allowed to use before it may delegate to an agent that runs programs.
const shellTool = "shell.exec"

// helper returns the handler for the tool calls of a program, which runs while the turn waits for the program; nil for agents without
// programs. Each call is admitted like a call of the model, with the rights of the turn.
func (l *caller) helper(parent model.ToolCall) tool.Helper {
	if l.agent.Programs == nil || l.agent.Programs.HelperCalls == 0 {
		return nil
	}
	made := 0
	return func(ctx context.Context, name string, args json.RawMessage, pause func() (resume func())) tool.Result {
		if made++; made > l.agent.Programs.HelperCalls {
			return tool.Result{Text: fmt.Sprintf("the program used its %d calls", l.agent.Programs.HelperCalls), IsError: true}
		}
		c := model.ToolCall{ID: fmt.Sprintf("%s/%d", parent.ID, made), Name: name, Args: args}
		r, err := l.help(ctx, c, pause)
		if err != nil {
			return tool.Result{Text: cmp.Or(plainText(err), "the call failed inside the host"), IsError: true}
		}
		return r
	}
}

// help admits one call of a program and runs it. The decision is committed first. The start of the program's own call is the durable
// record: after a crash neither is run again.
func (l *caller) help(ctx context.Context, c model.ToolCall, pause func() (resume func())) (tool.Result, error) {
	if _, err := l.state.MayCall(l.now(ctx)); err != nil {
		return tool.Result{}, err
	}
	l.announce(c)
	v, err := l.admit(ctx, l.rights(ctx), c, pausingApprover{l.approver, pause})
	if err != nil {
		return tool.Result{}, err
	}
	start := l.judged(c, v)
	l.helped()
	if err := l.commit(ctx); err != nil {
		return tool.Result{}, err
	}
	var result tool.Result
	if v.Action == tool.Run {
		result = l.performer.perform(ctx, v, c, l.performer.toolCall(v, c))
	} else {
		result = l.performer.refused(ctx, v)
	}
	l.came(transcript.ToolResult{ToolStart: start, Result: result})
	return result, nil
}

// pausingApprover asks people for approval while the program's clock stands still.
type pausingApprover struct {
	approver
	pause func() (resume func())
}

// Wait implements tool.Approver.
func (p pausingApprover) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	defer p.pause()()
	return p.approver.Wait(ctx, id)
}

var _ tool.Approver = pausingApprover{}
