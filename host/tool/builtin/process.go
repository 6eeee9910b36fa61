package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

type startArgs struct {
	Command string `json:"command"`
	Dir     string `json:"cwd"`
}

func processStart() tool.Tool {
	return function[startArgs]{
		spec: tool.Spec{
			Name:        "process.start",
			Description: "Start a command line in the background, with the shell of shell.exec. Its output is kept for process.output, which also tells which files it has changed once it has ended.",
			Effect:      tool.Execute,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{
				"command":{"type":"string","minLength":1,"description":"the command line"},
				"cwd":{"type":"string","description":"working directory, relative to the workspace"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args startArgs) (tool.Result, error) {
			p, err := call.Machine.Start(ctx, machine.Command{Script: args.Command, Dir: args.Dir, Changes: true})
			if err != nil {
				return outcome(err)
			}
			return tool.Result{Text: JoinLines(fmt.Sprintf("started %s with pid %d", p.ID, p.PID), told(p.News)), Record: record(p)}, nil
		},
	}
}

func processList() tool.Tool {
	return function[struct{}]{
		spec: tool.Spec{
			Name:        "process.list",
			Description: "List the background processes, the ended ones that are still kept included.",
			Effect:      tool.Read,
			Machine:     true,
			Schema:      json.RawMessage(`{"type":"object","additionalProperties":false}`),
		},
		run: func(ctx context.Context, call tool.Call, _ struct{}) (tool.Result, error) {
			list, err := call.Machine.Processes(ctx)
			if err != nil {
				return outcome(err)
			}
			lines := []string{}
			for _, p := range list {
				lines = append(lines, processLine(p))
			}
			if len(lines) == 0 {
				lines = append(lines, "no background processes")
			}
			return tool.Result{Text: strings.Join(lines, "\n"), Record: record(list)}, nil
		},
	}
}

func processLine(p machine.Process) string {
	state := "running"
	if !p.Running && p.Result != nil {
		state = Describe(*p.Result)
	}
	return fmt.Sprintf("%s  pid %d  %s  %s", p.ID, p.PID, state, p.Script)
}

type outputArgs struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

func processOutput() tool.Tool {
	return function[outputArgs]{
		spec: tool.Spec{
			Name:        "process.output",
			Description: "Read what a background process wrote, from an offset on.",
			Effect:      tool.Read,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"properties":{
				"id":{"type":"string","description":"as process.start told it"},
				"offset":{"type":"integer","minimum":0,"description":"in bytes; where the last reading said to go on"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args outputArgs) (tool.Result, error) {
			out, err := call.Machine.Output(ctx, args.ID, args.Offset, pageSize)
			if err != nil {
				return outcome(err)
			}
			state := "running"
			if !out.Running {
				state = "ended"
			}
			note := fmt.Sprintf("[%s; go on with offset %d]", state, out.Next)
			if gap := out.Offset - args.Offset; gap > 0 {
				note = fmt.Sprintf("[%s; %d bytes before this are no longer kept; go on with offset %d]", state, gap, out.Next)
			}
			return tool.Result{Text: JoinLines(string(out.Data), note, changedBy(ctx, call.Machine, args.ID, out.Running)), Labels: call.Place}, nil
		},
	}
}

type killArgs struct {
	ID string `json:"id"`
}

func processKill() tool.Tool {
	return function[killArgs]{
		spec: tool.Spec{
			Name:        "process.kill",
			Description: "End a background process with everything it started.",
			// It can end only processes of process.start, so it is Write and not Destructive.
			Effect:  tool.Write,
			Machine: true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["id"],"properties":{
				"id":{"type":"string","description":"as process.start told it"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args killArgs) (tool.Result, error) {
			p, err := call.Machine.Kill(ctx, args.ID)
			if err != nil {
				return outcome(err)
			}
			return tool.Result{Text: JoinLines(processLine(p), changedOf(p)), Record: record(p)}, nil
		},
	}
}

// changedBy names the files that a background process has changed, once it has ended.
func changedBy(ctx context.Context, m machine.Machine, id string, running bool) string {
	if running {
		return ""
	}
	list, err := m.Processes(ctx)
	i := slices.IndexFunc(list, func(p machine.Process) bool { return p.ID == id })
	if err != nil || i < 0 {
		return ""
	}
	return changedOf(list[i])
}

func changedOf(p machine.Process) string {
	if p.Running || p.Result == nil {
		return ""
	}
	return changed(p.Result.Changes)
}
