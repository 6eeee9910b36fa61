package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Tool runs one program.
type Tool struct{ config Config }

var (
	_ tool.Tool  = (*Tool)(nil)
	_ tool.Pager = (*Tool)(nil)
)

// New returns the tool of a program.
func New(c Config) (*Tool, error) {
	if c.Dir == "" {
		c.Dir = c.Workspace
	}
	return &Tool{c}, c.Check()
}

// Spec implements tool.Tool.
func (t *Tool) Spec() tool.Spec {
	return tool.Spec{
		Name: ToolName, Description: "Give a message to the agent program " + t.config.Name + " and wait for its answer.",
		Effect: tool.Execute, Machine: true,
		Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["prompt"],"properties":{
			"prompt":{"type":"string","description":"the message"},
			"session":{"type":"string","maxLength":128,"description":"the program's own name of the conversation"},
			"resume":{"type":"boolean","description":"whether the conversation goes on"},
			"folder":{"type":"string","maxLength":4096,"description":"the folder of the host that it is about"}}}`),
	}
}

// Rest implements tool.Pager.
func (t *Tool) Rest() string { return "Ask for it in parts." }

// Run implements tool.Tool. A run that fails is a result; it has a Record unless nothing was run.
func (t *Tool) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args Args
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return tool.Failure("the arguments do not fit: %v", err), nil
	}
	switch {
	case t.config.Missing != "":
		return tool.Failure("%s cannot run: %s", t.config.Name, t.config.Missing), nil
	case args.Session != "" && !sessionName().MatchString(args.Session):
		return tool.Failure("%.64q is not a name of a session", args.Session), nil
	case args.Resume && (args.Session == "" || len(t.config.Resume) == 0):
		return tool.Failure("%s cannot go on with a conversation that has no name", t.config.Name), nil
	case args.Folder != "" && t.config.Named == "":
		return tool.Failure("%s works in no folder that a call names: see folder_by_call", t.config.Name), nil
	}
	r, err := t.begin(ctx, call, args)
	if err == nil {
		err = r.run(ctx)
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, machine.ErrUnavailable):
		return tool.Result{Labels: call.Place}, err
	case err != nil:
		return tool.Failure("%s could not be run: %v", t.config.Name, err), nil
	}
	return r.result(ctx, call.Place), nil
}

// run is one run of the program.
type run struct {
	config  Config
	args    Args
	machine machine.Machine
	values  values
	files   []string // to be removed afterwards
	stdin   string

	out    *output
	errors tail
	ended  machine.Result
}

// maxArgument bounds a prompt that is passed as an argument: the kernel limits scripts. A longer one is passed by a file.
const maxArgument = 24 << 10

func (t *Tool) begin(ctx context.Context, call tool.Call, args Args) (*run, error) {
	r := &run{config: t.config, args: args, machine: call.Machine}
	token := strings.ToLower(rand.Text()[:16])
	switch {
	case args.Folder != "" && t.config.OnHost:
		r.config.Dir = args.Folder
	case args.Folder != "":
		r.config.Dir = t.config.Named
	}
	r.values = values{
		session: args.Session, workspace: r.config.Dir, state: t.config.StateDir, auth: t.config.AuthDir,
		responseFile: path.Join(t.config.Workspace, ".flynn-response-"+token),
	}
	if t.config.Output == OutputFile {
		r.files = append(r.files, r.values.responseFile)
	}
	switch {
	case t.config.Prompt == PromptStdin:
		r.stdin = args.Prompt
	case len(args.Prompt) <= maxArgument && !strings.ContainsRune(args.Prompt, 0):
		r.values.prompt = args.Prompt
	default:
		name := path.Join(t.config.Workspace, ".flynn-prompt-"+token)
		if err := r.machine.WriteFile(ctx, name, []byte(args.Prompt), 0o600); err != nil {
			return nil, fmt.Errorf("put the message into a file: %w", err)
		}
		r.files = append(r.files, name)
		r.values.prompt = "The message is too long to be given here. Read all of " + name + " and answer what stands in it."
	}
	say := call.Say
	if t.config.Output == OutputFile { // its standard output is not the answer
		say = func(text string) { call.Progress([]byte(text)) }
	}
	var err error
	r.out, err = newOutput(t.config, say)
	return r, err
}

// command is the whole command line of the run.
func (r *run) command() machine.Command {
	words := r.config.Command
	if r.args.Resume {
		words = r.config.Resume
	}
	env := map[string]string{"NO_COLOR": "1", "TERM": "dumb"}
	if !r.config.OnHost {
		env["HOME"] = r.config.StateDir
	}
	for name, value := range maps.All(r.config.Env) {
		env[name] = r.values.fill(value)
	}
	script := "cd " + quote([]string{r.config.Dir}) + " || exit 78\n" + r.config.syncScript() + "exec " + quote(r.values.argv(words))
	return machine.Command{Script: script, Env: env, Timeout: r.config.Timeout, Changes: true, KeepHome: true}
}

func (r *run) run(ctx context.Context) (err error) {
	talker, ok := r.machine.(machine.Talker)
	if ok {
		r.ended, err = r.talk(ctx, talker)
	} else {
		r.ended, err = r.exec(ctx)
	}
	r.ended.Stdout, r.ended.Stderr = nil, nil
	r.out.end()
	return err
}

// exec is for machines without interactive processes; these bound the output themselves.
func (r *run) exec(ctx context.Context) (machine.Result, error) {
	cmd := r.command()
	cmd.Stdin, cmd.MaxOutput = []byte(r.stdin), maxLine
	cmd.Progress = func(s machine.Stream, p []byte) {
		if s == machine.Stdout {
			_, _ = r.out.Write(p)
			return
		}
		_, _ = r.errors.Write(p)
	}
	return r.machine.Exec(ctx, cmd)
}

// killTime is how long a machine may take to end a process. After that the connection to it is closed.
const killTime = 15 * time.Second

// talk passes the streams on until the program and all its child processes are gone.
func (r *run) talk(ctx context.Context, t machine.Talker) (result machine.Result, err error) {
	live, err := t.Talk(ctx, r.command())
	if err != nil {
		return machine.Result{}, err
	}
	defer func() { err = errors.Join(err, live.Close()) }()
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = io.WriteString(live.Stdin, r.stdin) // a program that does not read it has ended, or says so
		_ = live.Stdin.Close()
	})
	streams.Go(func() { _, _ = io.Copy(&r.errors, live.Stderr) })
	streams.Go(func() { _, _ = io.Copy(r.out, live.Stdout) })
	over := make(chan struct{})
	go func() { streams.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
		select {
		case <-over:
		case <-time.After(killTime):
			err = live.Close() // which ends the streams
			<-over
			return machine.Result{ExitCode: -1, Canceled: true}, err
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	return live.Wait(last)
}

// result is the Result of the run.
func (r *run) result(ctx context.Context, place []string) tool.Result {
	// The files are read even if the run was stopped, so that they do not stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	answer := r.out.whole()
	if r.config.Output == OutputFile {
		answer = r.read(ctx, r.values.responseFile, maxAnswer)
	}
	defer r.remove(ctx)
	record := Record{Session: r.session(ctx), Usage: r.out.usage, Run: r.ended}
	result := tool.Result{Text: answer, Labels: place}
	if why := r.failure(answer); why != "" {
		record.Unknown = r.unknown()
		result.Text, result.IsError = r.complaint(why), true
	}
	if record.Unknown {
		record.Session = ""
	}
	if !result.IsError && answer == "" {
		result.Text = r.config.Name + " ended without an answer."
	}
	result.Record, _ = jsonform.Marshal(record) // it holds nothing that has no JSON
	return result
}

// session is the name with which the next message resumes.
func (r *run) session(ctx context.Context) string {
	found := ""
	switch r.config.SessionFrom {
	case SessionOutput:
		found = r.out.session
	case SessionFile:
		found = strings.TrimSpace(r.read(ctx, r.values.fill(r.config.SessionFile), 1<<10))
	}
	if sessionName().MatchString(found) {
		return found
	}
	return r.args.Session
}

// failure says how the run failed, or "".
func (r *run) failure(answer string) string {
	e := r.ended
	killed := ""
	if e.Kill != nil {
		killed = fmt.Sprintf(" with everything that it had started (%s, %d processes left)", e.Kill.Rung, e.Kill.Survivors)
	}
	switch {
	case e.Canceled:
		return "was stopped" + killed
	case e.TimedOut:
		return fmt.Sprintf("took longer than %v and was ended%s", r.config.Timeout, killed)
	case e.OOM:
		return "ran out of memory: raise memory_limit of the agent's cli"
	case e.DiskHit:
		return "was ended because the workspace has outgrown its disk limit"
	case e.Signal != "":
		return "was ended by " + e.Signal
	case e.ExitCode == 127:
		return "is not there: the sandbox's image has no such program"
	case e.ExitCode != 0:
		return fmt.Sprintf("failed with exit code %d", e.ExitCode)
	case answer == "" && r.out.failure != "":
		return "failed"
	}
	return ""
}

// complaint is a failure with the program's own message.
func (r *run) complaint(why string) string {
	text := r.config.Name + " " + why
	for _, said := range []string{clean(r.out.failure), r.errors.String(), r.out.tail.String()} {
		if said != "" {
			return text + ":\n" + strings.ToValidUTF8(cut.Head(said, maxTail), "")
		}
	}
	return text
}

// unknown reports whether the program has no session of the given name and did nothing else: then the run can be repeated with a new
// session.
func (r *run) unknown() bool {
	if !r.args.Resume || r.ended.Canceled || r.ended.TimedOut || !r.out.silent() {
		return false
	}
	said := r.out.failure + "\n" + r.errors.String() + "\n" + r.out.tail.String()
	for _, sign := range r.config.Unknown {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// read returns the content of a file on the machine, or "".
func (r *run) read(ctx context.Context, name string, most int) string {
	got, err := r.machine.Exec(ctx, machine.Command{
		Script: fmt.Sprintf("head -c %d -- %s 2>/dev/null", most, quote([]string{name})), MaxOutput: most, Timeout: killTime,
	})
	if err != nil {
		return ""
	}
	return strings.TrimSpace(clean(string(got.Stdout)))
}

// remove removes the files of this run.
func (r *run) remove(ctx context.Context) {
	if len(r.files) > 0 {
		_, _ = r.machine.Exec(ctx, machine.Command{Script: "rm -f -- " + quote(r.files), Timeout: killTime})
	}
}
