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

// Programs are the programs of an agent of kind code: it answers with prose or with one program, and its model is offered
// the one tool that runs it. The agent's Offered are the tools that its programs may call.
type Programs struct {
	// Tool is the name of the tool that runs a program, by the arguments language and program.
	Tool string
	// Languages are those that it takes.
	Languages []string
	// Available returns why no container for a program can be had now, or nil.
	Available func() error
	// HelperCalls bounds the calls that one program makes.
	HelperCalls int
	// Fenced offers the model no tool; its programs are blocks of code, and their output comes back as text.
	Fenced bool
}

// Prompt is the text about programs that follows the agent's own prompt. helpers are the tools that programs may call.
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

// compact is a schema without the blanks in it.
func compact(schema json.RawMessage) string {
	text, _, err := jsonform.Canonical(schema)
	if err != nil {
		return ""
	}
	return string(text)
}

// mayRun says why no program can be run, before any model is asked.
func (p *Programs) mayRun() error {
	if p == nil {
		return plainError("this agent has nothing to run programs with")
	}
	if err := p.Available(); err != nil {
		return plainError("programs cannot be run: the sandbox is unavailable: " + machine.Reason(err))
	}
	return nil
}

// request puts a request into the form that models without tools understand, where the agent's is one.
func (p *Programs) request(req model.Request) model.Request {
	if p != nil && p.Fenced {
		req.Tools, req.Messages, req.Rough = nil, withoutCalls(req.Messages), 0
	}
	return req
}

// program reads the program that a model has written as a block of code as a call. Where a model calls the tool itself, the blocks in
// its prose are prose.
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

// blockID begins the ids of calls that were blocks of code.
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

// withoutCalls puts calls and results into the words of a conversation, for models that know neither.
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

// shellTool is what an agent needs to be allowed so that it may give work to one that runs programs.
const shellTool = "shell.exec"

// helper returns what answers the calls of a program, while the turn waits for it; nil for agents without programs. Every call
// goes the way of a call of the model's own, with the rights of the turn.
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

// help decides about one call of a program and runs it if it may run. The decision is committed before. The program's own
// call is the durable record that it ran: after a crash neither is run again.
func (l *caller) help(ctx context.Context, c model.ToolCall, pause func() (resume func())) (tool.Result, error) {
	if _, err := l.state.MayCall(l.now(ctx)); err != nil {
		return tool.Result{}, err
	}
	l.announce(c)
	v, err := l.admit(ctx, l.rights(), c, thinking{l.people, pause})
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

// thinking asks people while a program's clock stands still.
type thinking struct {
	people
	pause func() (resume func())
}

// Wait implements tool.Approver.
func (p thinking) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	defer p.pause()()
	return p.people.Wait(ctx, id)
}

var _ tool.Approver = thinking{}
