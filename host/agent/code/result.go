package code

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Violation is an action that the sandbox kept a program from.
type Violation struct {
	Kind   Kind
	Detail string
}

// Violated is published for each violation of an agent's programs.
type Violated struct {
	Agent string
	Violation
}

// Kind says what was tried.
type Kind string

// The kinds of violations. The kernel counts Network, the error message of a failed program shows Files, and the others are limits of
// the container.
const (
	Network Kind = "network"
	Files   Kind = "files"
	Time    Kind = "time"
	Memory  Kind = "memory"
	Pids    Kind = "pids"
	Disk    Kind = "disk"
	Output  Kind = "output"
)

// violations reads the violations off a result.
func violations(r sandbox.CodeResult, spec spec.Spec) (all []Violation) {
	add := func(when bool, kind Kind, format string, args ...any) {
		if when {
			all = append(all, Violation{kind, fmt.Sprintf(format, args...)})
		}
	}
	add(r.NoRoutes > 0, Network, "%d tries to reach a network that is not there", r.NoRoutes)
	path := outside(r.Stderr, spec.WorkspaceDir)
	add(r.ExitCode != 0 && path != "", Files, "no access to %.200q", path)
	add(r.TimedOut, Time, "ended after %v", r.Wall.Round(1e6))
	add(r.OOM, Memory, "out of %d bytes", spec.MemoryBytes)
	add(r.PidsHit, Pids, "a process beyond %d", spec.PidsLimit)
	add(r.DiskHit, Disk, "more than %d bytes of files", spec.DiskBytes)
	add(r.Dropped > 0, Output, "%d bytes of output beyond the limit", r.Dropped)
	return all
}

// noAccess matches the last error of Python and of Node.js about a file that is missing or forbidden.
const noAccess = `(?:FileNotFoundError|PermissionError): \[Errno \d+\] [A-Za-z ]+: '(/[^'\n]{0,500})'|(?:ENOENT|EACCES|EPERM): [a-z ]+, [a-z]+ '(/[^'\n]{0,500})'`

// outside returns a path beyond the workspace that a program reports as inaccessible, or "". The report proves nothing, but a program
// can only make itself look worse.
func outside(stderr []byte, workspace string) string {
	for _, m := range regexp.MustCompile(noAccess).FindAllSubmatch(stderr, 16) {
		path := string(m[1]) + string(m[2])
		if !in(path, workspace) && !in(path, frame.HeldFolder) {
			return strings.ToValidUTF8(path, "\uFFFD")
		}
	}
	return ""
}

// record is the record of a run for people.
type record struct {
	machine.Result
	NoRoutes int64    `json:"no_routes,omitempty"`
	Files    []string `json:"files,omitempty"`
	Left     int      `json:"left,omitempty"`
	Helped   int      `json:"helper_calls,omitempty"`
}

// told returns the result for the model, with its record, and logs violations.
func (r *run) told(ctx context.Context, c sandbox.CodeResult) tool.Result {
	rec := record{Result: c.Result, NoRoutes: c.NoRoutes, Left: c.Left, Helped: r.helped}
	rec.Stdout, rec.Stderr = nil, nil
	c.Result.Shell = "" // the model wrote a program, not a shell command
	parts := []string{section("stdout", c.Stdout), section("stderr", c.Stderr), "[" + builtin.Describe(c.Result) + "]"}
	if c.NoRoutes > 0 {
		parts = append(parts, "[the program tried to reach a network; there is none]")
	}
	kept := r.keep(ctx, c.Files)
	rec.Files = kept
	for _, line := range kept {
		parts = append(parts, "["+line+"]")
	}
	if c.Left > 0 {
		parts = append(parts, fmt.Sprintf("[%d entries of out were not brought back: too many, too large, or no files]", c.Left))
	}
	if r.left > 0 {
		parts = append(parts, fmt.Sprintf("[%d attachments were not given to the program: too many, or too large]", r.left))
	}
	result := tool.Result{
		Text: builtin.JoinLines(parts...), IsError: c.ExitCode != 0 || c.Signal != "" || c.TimedOut || c.Canceled,
		Labels: tool.JoinLabels(r.labels, tool.PlaceLabels("code", r.spec.Network != "none")), Attachments: r.attached,
	}
	for _, v := range violations(c, r.spec) {
		result.Violations = append(result.Violations, string(v.Kind)+": "+v.Detail)
		r.Log.Warn("a program was kept from violating its limits", "agent", r.call.Agent, "kind", v.Kind, "detail", v.Detail)
		r.Events.Publish(Violated{r.call.Agent, v})
	}
	result.Record, _ = jsonform.Marshal(rec) // cannot fail: numbers and strings only
	return result
}

// section returns a stream under its name, or "" if it is empty. Standard output alone has no name.
func section(name string, content []byte) string {
	text := strings.ToValidUTF8(string(content), "\uFFFD")
	if text == "" || name == "stdout" {
		return text
	}
	return name + ":\n" + text
}

// in reports whether a path is a folder or lies in it, lexically.
func in(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
