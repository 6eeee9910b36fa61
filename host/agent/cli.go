package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// CLI is the program of an agent of kind cli, as far as a turn knows it; its tool knows the rest.
type CLI struct {
	// Name is the program's, for people.
	Name string
	// Workspace is the session's, by its path on the program's machine.
	Workspace string
	// Gives is true where the program's sessions are named by us, Resumes where they can go on at all.
	Gives, Resumes bool
	// Folder checks the folder of the host that a message names for its conversation; nil where none may be named.
	Folder func(dir string) error
	// Programs is true where what has the gateway's token may run it on the host, as its owner may at the terminal.
	Programs bool
	// Missing is why it cannot run as things are, such as a key that is not set; empty if nothing is.
	Missing string
}

// cliVoice hands the message to the agent's program and answers with what it says. No model of ours takes part; the steps look as if one had
// called cli.run and then repeated its result. So the run is decided about, approved, recorded and interrupted like any other call, and
// a restart in the middle does not run the program again.
//
// A program that no longer knows the session is run a second time, for a new one. It has done nothing in the first run.
type cliVoice struct {
	*recorder
	*publisher
	*identity
	spending *meter
}

// newCLIVoice charges what the program says that it has used, as an estimate: it calls its models itself, past every reservation.
func (t *turn) newCLIVoice() cliVoice {
	return cliVoice{t.recorder, t.publisher, t.identity, &meter{runner: t.Runner, gen: t.gen, account: t.account()}}
}

// repeats is false before anything is begun, so that the kill switch can leave the message for later. What the program has said and used
// is recorded in any case.
func (v cliVoice) repeats() bool { return len(v.state.Answers) > 0 }

func (v cliVoice) close() { v.spending.settle(budget.Amount{}) }

func (v cliVoice) answer(ctx context.Context) error {
	n := len(v.state.Answers)
	if n == 0 {
		call := v.call(v.session.program)
		if err := v.spending.Enter(ctx, v.attempt()); err != nil {
			return err
		}
		v.step(call)
		return nil
	}
	result := *v.state.Answers[n-1].Calls[0].Result
	record, ran := cliRecord(&result)
	if ran && record.Unknown && n == 1 {
		v.publish(message.Event{Kind: message.TextReset})
		v.step(v.call(""))
		return nil
	}
	answer := v.said(result.Result.Text, record.Usage, n > 1)
	if ran {
		v.charge(ctx, result, record)
	}
	if result.Result.IsError {
		answer.Message.Text = ""
		v.step(answer) // for what it has used
		return v.failure(result)
	}
	v.step(answer)
	return nil
}

// attempt is a run of the program, for which the budgets must have room for the prompt at least. More than that nobody knows before.
func (v cliVoice) attempt() model.Attempt {
	return model.Attempt{
		Provider: KindCLI, Model: v.agent.CLI.Name, Number: 1, Start: v.clock(), Worst: model.Usage{Input: roughText(v.state.User.Text()), Estimated: true},
	}
}

// charge charges a run, with the step that its answer becomes. One that an earlier process had begun has no room reserved in this one.
func (v cliVoice) charge(ctx context.Context, r transcript.ToolResult, record cli.Record) {
	m := v.spending
	if m.room == nil {
		m.charge(ctx)
	}
	m.account.Step = v.state.Steps()
	m.Leave(v.attempt(), record.Usage, cliFault(r, record))
	v.pending.Usage = append(v.pending.Usage, m.rows...)
	m.rows = nil
}

// cliFault is the class of failure of a run.
func cliFault(r transcript.ToolResult, record cli.Record) error {
	switch {
	case !r.Result.IsError:
		return nil
	case record.Run.Canceled:
		return context.Canceled
	case record.Run.TimedOut:
		return &model.Error{Kind: model.Timeout}
	}
	return &model.Error{Kind: model.BadAnswer}
}

// mayRun says what is missing before a container is made for nothing.
func (v cliVoice) mayRun() error {
	owner := v.role() == route.Owner
	if why := v.agent.RefusesCLI(v.local(v.agent), owner); why != "" {
		return plainError(why)
	}
	folder, before := v.state.User.Folder, v.session.folder
	switch {
	case folder == "":
		return nil
	case v.agent.CLI.Folder == nil:
		return plainError(fmt.Sprintf("agent %q works in no folder that a message names: write folder_by_call = true under its [cli]", v.agent.Name))
	case before != "" && folder != before:
		return plainError(fmt.Sprintf("this conversation is about %s: name no other folder, or begin a new conversation", before))
	}
	if err := v.agent.CLI.Folder(folder); err != nil {
		return plainError(err.Error())
	}
	return nil
}

// RefusesCLI says why the agent's program is not run for somebody, or "". A program on the host is for an owner who sits at it and for
// nobody else, whatever the policies say.
func (a *Agent) RefusesCLI(local, owner bool) string {
	switch {
	case a.CLI.Missing != "":
		return fmt.Sprintf("%s cannot run: %s", a.CLI.Name, a.CLI.Missing)
	case !a.Sandboxed && !(local && owner):
		return fmt.Sprintf("agent %q runs %s on the host itself, which is for its owner's terminal and web page alone", a.Name, a.CLI.Name)
	}
	return ""
}

// call is the step that calls the program, for the session of that name or a new one.
func (v cliVoice) call(program string) model.Response {
	c := v.agent.CLI
	args := cli.Args{Prompt: v.prompt(program == ""), Session: program, Resume: program != "" && c.Resumes, Folder: v.state.User.Folder}
	if !args.Resume {
		args.Session = ""
		if c.Gives {
			args.Session = cli.NewSession()
		}
	}
	call := model.ToolCall{ID: fmt.Sprintf("cli%d", len(v.state.Answers)+1), Name: cli.ToolName, Args: transcript.Encode(args)}
	return model.Response{
		Message: model.Message{Role: model.Assistant, Calls: []model.ToolCall{call}}, Stop: model.StopToolCalls, Provider: KindCLI, Model: c.Name,
	}
}

// prompt is what was said, with files by their paths on the program's machine. A new session begins with the system prompt.
func (v cliVoice) prompt(begins bool) string {
	said := v.state.User
	said.Said = nil
	for _, s := range v.state.User.Said {
		files := s.Files
		s.Files = nil
		for _, f := range files {
			if f.Path != "" {
				f.Path = path.Join(v.agent.CLI.Workspace, f.Path)
			}
			s.Files = append(s.Files, f)
		}
		said.Said = append(said.Said, s)
	}
	if system := strings.TrimSpace(v.agent.System); begins && system != "" {
		return system + "\n\n" + said.Text()
	}
	return said.Text()
}

// said is the step that repeats what the program has said.
func (v cliVoice) said(text string, used model.Usage, anew bool) model.Response {
	if anew {
		text = fmt.Sprintf("(%s no longer knows our earlier conversation, so this is a new one.)\n\n%s", v.agent.CLI.Name, text)
	}
	return model.Response{
		Message: model.Message{Role: model.Assistant, Text: text}, Stop: model.StopEnd, Usage: used, Provider: KindCLI, Model: v.agent.CLI.Name,
	}
}

// failure is why there is no answer. The program's own words are the sender's to read: it worked for him.
func (v cliVoice) failure(r transcript.ToolResult) error {
	if r.Interrupted {
		return plainError(fmt.Sprintf("the host was restarted while %s worked on this. It may or may not have done what you asked for, and was not run again. "+
			"Look before you ask again", v.agent.CLI.Name))
	}
	return plainError(strings.TrimRight(strings.TrimPrefix(r.Result.Text, "refused: "), ".\n "))
}

// cliRecord reads the record of a run; there is none where nothing has run.
func cliRecord(r *transcript.ToolResult) (cli.Record, bool) {
	var record cli.Record
	if r == nil || r.Interrupted || r.Tool != cli.ToolName || len(r.Result.Record) == 0 {
		return record, false
	}
	return record, json.Unmarshal(r.Result.Record, &record) == nil
}

// cliSession is the name of the program's session after a turn, where it was before. A run that was cut off has used the name that it was
// given.
func cliSession(s *transcript.State, before string) string {
	before = cmp.Or(s.User.Program, before)
	for _, a := range s.Answers {
		for i, c := range a.Calls {
			call := a.Message.Calls[i]
			record, ran := cliRecord(c.Result)
			switch {
			case ran && record.Unknown:
				before = ""
			case ran && record.Session != "":
				before = record.Session
			case call.Name == cli.ToolName && c.Start != nil && (c.Result == nil || c.Result.Interrupted):
				var args cli.Args
				if json.Unmarshal(call.Args, &args) == nil && args.Session != "" {
					before = args.Session
				}
			}
		}
	}
	return before
}
