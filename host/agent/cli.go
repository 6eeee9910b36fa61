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

// CLI is what a turn knows of the CLI of an agent of kind cli.
type CLI struct {
	// Name is the program's name for people.
	Name string
	// Workspace is the path of the session's workspace on the program's machine.
	Workspace string
	// Gives is true if Flynn names the program's sessions, and Resumes if a session can be continued.
	Gives, Resumes bool
	// Folder checks the host folder that a message names for its conversation. It is nil if no folder may be named.
	Folder func(dir string) error
	// Programs is true if a holder of the gateway's token may run it on the host, as the owner may at the terminal.
	Programs bool
	// Missing says why the program cannot run, for example because a key is not set. It is empty if it can.
	Missing string
}

// cliVoice passes the message to the agent's CLI and answers with its output. It calls no model; the recorded steps look as if a model
// had called cli.run and then repeated its result. So the run is decided about, approved, recorded and interrupted like any other call,
// and a restart does not run the program again.
//
// A program that no longer knows its session is run a second time with a new one. The first run has done nothing.
type cliVoice struct {
	*recorder
	*publisher
	*identity
	spending *meter
}

// newCLIVoice charges the usage that the program reports as an estimate. The program calls its models itself, without a reservation.
func (t *turn) newCLIVoice() cliVoice {
	return cliVoice{t.recorder, t.publisher, t.identity, &meter{runner: t.Runner, gen: t.gen, account: t.account()}}
}

// repeats returns false before the program has begun, so that the kill switch can leave the message for later. The program's answer and
// usage are recorded in any case.
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
		v.step(answer) // records the usage
		return v.failure(result)
	}
	v.step(answer)
	return nil
}

// attempt is the reservation for a run: the tokens of the prompt. Its further use is unknown.
func (v cliVoice) attempt() model.Attempt {
	return model.Attempt{
		Provider: KindCLI, Model: v.agent.CLI.Name, Number: 1, Start: v.clock(), Worst: model.Usage{Input: roughText(v.state.User.Text()), Estimated: true},
	}
}

// charge charges a run with the step that records its answer. If an earlier process began the run, no budget is reserved for it in this
// one.
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

// cliFault classifies the failure of a run.
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

// mayRun checks the conditions of a run before a container is made.
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
		return plainError(fmt.Sprintf("agent %q does not take a folder from a message: set folder_by_call = true under its [cli]", v.agent.Name))
	case before != "" && folder != before:
		return plainError(fmt.Sprintf("this conversation is about %s: name no other folder, or begin a new conversation", before))
	}
	if err := v.agent.CLI.Folder(folder); err != nil {
		return plainError(err.Error())
	}
	return nil
}

// RefusesCLI returns why the agent's CLI must not run for a sender, or "". A CLI on the host runs only for an owner at the machine,
// whatever the policies say.
func (a *Agent) RefusesCLI(local, owner bool) string {
	switch {
	case a.CLI.Missing != "":
		return fmt.Sprintf("%s cannot run: %s", a.CLI.Name, a.CLI.Missing)
	case !a.Sandboxed && !(local && owner):
		return fmt.Sprintf("agent %q runs %s on the host itself, and only its owner may use it, from the terminal or the web page", a.Name, a.CLI.Name)
	}
	return ""
}

// call returns the step that calls the program, with the given session or a new one.
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

// prompt returns the messages as a prompt, with files by their paths on the program's machine. In a new session the system prompt comes
// first.
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

// said returns the step that repeats the program's answer.
func (v cliVoice) said(text string, used model.Usage, anew bool) model.Response {
	if anew {
		text = fmt.Sprintf("(%s no longer knows our earlier conversation, so this is a new one.)\n\n%s", v.agent.CLI.Name, text)
	}
	return model.Response{
		Message: model.Message{Role: model.Assistant, Text: text}, Stop: model.StopEnd, Usage: used, Provider: KindCLI, Model: v.agent.CLI.Name,
	}
}

// failure returns why there is no answer. The sender may read the program's own message: it worked for him.
func (v cliVoice) failure(r transcript.ToolResult) error {
	if r.Interrupted {
		return plainError(fmt.Sprintf("the host was restarted while %s worked on this. It may or may not have done what you asked for, and was not run again. "+
			"Look before you ask again", v.agent.CLI.Name))
	}
	return plainError(strings.TrimRight(strings.TrimPrefix(r.Result.Text, "refused: "), ".\n "))
}

// cliRecord returns the record of a run. ok is false if nothing has run.
func cliRecord(r *transcript.ToolResult) (cli.Record, bool) {
	var record cli.Record
	if r == nil || r.Interrupted || r.Tool != cli.ToolName || len(r.Result.Record) == 0 {
		return record, false
	}
	return record, json.Unmarshal(r.Result.Record, &record) == nil
}

// cliSession returns the name of the program's session after a turn. before is its name before the turn. An interrupted run has used
// the name that it was given.
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
