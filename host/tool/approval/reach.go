package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/internal/shell"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// How far an approval of a call may reach, as the host classes its tool.
const (
	ReachOnce    = ""        // this call alone
	ReachSession = "session" // the same arguments, in the session
	ReachCall    = "call"    // the same arguments
	ReachShell   = "shell"   // the argument "command" is a command line, which is analysed
)

// refuses returns why a request cannot be granted with a scope, or "".
func refuses(a consent.Approval, scope consent.GrantScope) string {
	switch {
	case a.Reach == ReachOnce || a.Sandbox == "":
		return "calls of this tool are allowed one by one"
	case scope == consent.GrantStanding && a.Reach == ReachSession:
		return "only its provider knows what this tool does"
	case !Showable(a):
		return "it is too long to be shown"
	}
	return ""
}

// commandLine reads the line of a call.
func commandLine(args json.RawMessage) (shell.Line, error) {
	var call struct{ Command *string }
	if err := json.Unmarshal(args, &call); err != nil || call.Command == nil {
		return shell.Line{}, errors.New("the call has no command line")
	}
	line, err := shell.Parse(*call.Command)
	if err != nil {
		return line, fmt.Errorf("the command line is not understood: %w", err)
	}
	return line, nil
}

// programs finds the programs of a line on its machine, and refuses those that cannot be allowed for longer.
func programs(line shell.Line, where, dir string) ([]string, error) {
	var files []string
	for _, c := range line.Commands {
		if why := c.Lasting(); why != "" {
			return nil, errors.New(why)
		}
		var file string
		var names []string
		var err error
		if where == onHost {
			file, names, err = shell.Resolve(c.Program(), machine.SearchPath(dir))
		} else {
			file, err = shell.ResolveInside(c.Program())
		}
		if err != nil {
			return nil, err
		}
		if why := c.Lasting(names...); why != "" {
			return nil, errors.New(why)
		}
		files = append(files, file)
	}
	return files, nil
}

// onHost is the value of Where for calls outside of sandboxes.
const onHost = "host"

// misses names the first fact for which a grant does not cover a call, or "".
func misses(g consent.Grant, ask Ask) string {
	b := Binding{Tool: g.Tool, Args: g.Args, Dir: g.Dir, Agent: g.Agent, Policy: g.Policy, Where: g.Where, Sandbox: g.Sandbox}
	if g.Pattern != "" {
		b.Args = ask.Args // compared below
	}
	switch what := b.difference(ask.Binding); {
	case what != "":
		return what
	case g.Requester != ask.Requester:
		return "the requester"
	case slices.ContainsFunc(ask.Reasons, func(r string) bool { return !slices.Contains(g.Reasons, r) }):
		return "the reason for which a person is asked"
	case g.Scope == consent.GrantSession && g.Session != ask.Session:
		return "the session"
	case ask.Sandbox == "" || refuses(consent.Approval{Reach: ask.Reach, Sandbox: ask.Sandbox}, g.Scope) != "":
		return "the tool's class"
	case g.Pattern == "" && len(g.Programs) == 0:
		return ""
	}
	return missesLine(g, ask)
}

// missesLine compares the command line with that of the grant, and its programs with those that it had then.
func missesLine(g consent.Grant, ask Ask) string {
	line, err := commandLine(ask.Args)
	if err != nil {
		return "the command line"
	}
	if g.Pattern != "" {
		p, err := shell.ParsePattern(g.Pattern)
		if err != nil || p.Lasting() != "" || !p.Match(line) || !otherwiseEqual(g.Args, ask.Args) {
			return "the arguments"
		}
	}
	files, err := programs(line, ask.Where, ask.Dir)
	if err != nil || !slices.Equal(files, g.Programs) {
		return "the programs"
	}
	return ""
}

// otherwiseEqual compares arguments except the command line.
func otherwiseEqual(a, b json.RawMessage) bool {
	_, x, errX := jsonform.Canonical(a)
	_, y, errY := jsonform.Canonical(b)
	if errors.Join(errX, errY) != nil {
		return false
	}
	delete(x, "command")
	delete(y, "command")
	return reflect.DeepEqual(x, y)
}
