package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

type shellArgs struct {
	Command string `json:"command"`
	Dir     string `json:"cwd"`
	Timeout int64  `json:"timeout"` // ms
}

// defaultShellTimeout is in milliseconds, as the argument is.
const defaultShellTimeout = 30_000

func shellExec() tool.Tool {
	return function[shellArgs]{
		spec: tool.Spec{
			Name:        "shell.exec",
			Description: "Run a command line and wait for its end. In a sandbox bash runs it if the image has that, else sh (the first result in a container says which); on the host /bin/sh. Whatever it leaves in the background is ended with it; use process.start for what should go on.",
			Effect:      tool.Execute,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{
				"command":{"type":"string","minLength":1,"description":"the command line"},
				"cwd":{"type":"string","description":"working directory, relative to the workspace"},
				"timeout":{"type":"integer","minimum":1,"maximum":3600000,"description":"milliseconds; 30000 if left out"}}}`),
		},
		rest: "Redirect the output to a file and read it with file.read.",
		run:  runShell,
	}
}

func runShell(ctx context.Context, call tool.Call, args shellArgs) (tool.Result, error) {
	if args.Timeout == 0 {
		args.Timeout = defaultShellTimeout
	}
	r, err := call.Machine.Exec(ctx, machine.Command{
		Script:   args.Command,
		Dir:      args.Dir,
		Timeout:  time.Duration(args.Timeout) * time.Millisecond,
		Changes:  true,
		Spill:    true,
		Progress: func(_ machine.Stream, p []byte) { call.Progress(p) },
	})
	if err != nil {
		result, err := outcome(err)
		if said := JoinLines(string(r.Stdout), string(r.Stderr)); err == nil && said != "" { // output before the machine was lost
			result.Text, result.Labels = JoinLines(said, result.Text), call.Place
		}
		return result, err
	}
	text := JoinLines(string(r.Stdout), string(r.Stderr), "["+Describe(r)+"]", told(r.News), changed(r.Changes))
	r.Stdout, r.Stderr = nil, nil
	return tool.Result{Text: text, IsError: !succeeded(r), Record: record(r), Labels: call.Place}, nil
}

func succeeded(r machine.Result) bool {
	return r.ExitCode == 0 && r.Signal == "" && !r.TimedOut && !r.Canceled
}

// JoinLines puts parts on separate lines and drops empty ones.
func JoinLines(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		if b.Len() > 0 && p != "" && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(p)
	}
	return b.String()
}

// told formats the news of a machine about itself.
func told(news []string) string {
	var lines []string
	for _, line := range news {
		lines = append(lines, "["+line+"]")
	}
	return strings.Join(lines, "\n")
}

// Describe describes how a command ended: "exit code 1, 300 bytes of output dropped".
func Describe(r machine.Result) string {
	var facts []string
	add := func(when bool, format string, args ...any) {
		if when {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	add(r.TimedOut, "timed out after %v", r.Wall.Round(time.Millisecond))
	add(r.Canceled, "canceled")
	add(r.Signal != "", "ended by %s", r.Signal)
	add(r.Signal == "" && r.ExitCode >= 0, "exit code %d", r.ExitCode)
	add(!succeeded(r) && len(r.News) == 0 && path.Base(r.Shell) == "sh", "run by sh, as the image has no bash")
	add(r.OOM, "out of memory")
	add(r.PidsHit, "too many processes")
	add(r.DiskHit, "the workspace has outgrown its disk limit")
	add(r.Dropped > 0 && r.Spill == "", "%d bytes of output dropped", r.Dropped)
	add(r.Spill != "", "%d bytes of output left out above: read all of it in %s", r.Dropped, r.Spill)
	add(r.Kill != nil && !r.TimedOut && !r.Canceled, "what it left in the background was ended")
	add(r.Kill != nil && r.Kill.Survivors > 0, "%d processes could not be ended", survivors(r))
	return strings.Join(facts, ", ")
}

func survivors(r machine.Result) int {
	if r.Kill == nil {
		return 0
	}
	return r.Kill.Survivors
}
