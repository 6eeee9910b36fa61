package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

// Bridge is a command that programs in a sandbox may call and that runs in a second container of the session, made of a
// specification of its own. The two share nothing but, if at all, the workspace: what the second has in its environment,
// or is given by its proxy, the first never sees.
type Bridge struct {
	Name string // the command's
	// In is the second container's specification; bridges of its own are left out. It is nil where OnHost is set.
	In *Spec
	// OnHost has the program run on this machine, with the rights of this process. Workspace is none or ro then: ro hands over copies
	// of the files that its arguments name.
	OnHost bool `json:",omitempty"`
	// Program is the absolute path of the program there.
	Program string
	Forms   []bridge.Form
	// Env is the program's environment besides the fixed one, and Secrets names the secrets among it; see sandbox.Config.Secret.
	// A program that has secrets in its environment has no workspace: files there could make it show them.
	Env, Secrets map[string]string
	// Workspace is what it sees of the session's: none, ro or rw. none
	Workspace string
	Timeout   time.Duration // 1 minute
	MaxOutput int           // of each stream, in bytes; machine.DefaultMaxOutput
	Stdin     bool          // it is given the caller's standard input
}

// How a container sees its session's workspace; see Spec.Workspace.
const (
	workspaceWritable = ""
	WorkspaceReadOnly = "ro"
	WorkspaceOwn      = "none" // a folder of its own, in its place
)

// bridgeTimeout is a bridged command's if none is configured.
const bridgeTimeout = time.Minute

// Spec is the specification of the second container.
func (b Bridge) Spec() Spec {
	var s Spec
	if b.In != nil {
		s = *b.In
	}
	s.Bridges, s.Start = nil, nil
	switch b.Workspace {
	case "rw":
		s.Workspace = workspaceWritable
	case "ro":
		s.Workspace = WorkspaceReadOnly
	default:
		s.Workspace = WorkspaceOwn
	}
	return s.WithDefaults()
}

// Paths says how paths are translated, where the caller sees the workspace at inside. It is the zero value where none is shared.
func (b Bridge) Paths(inside string) bridge.Workspace {
	if w := b.Spec(); w.Workspace != WorkspaceOwn {
		return bridge.Workspace{Inside: inside, There: w.WorkspaceDir}
	}
	return bridge.Workspace{}
}

// validateBridges refuses what could not be called, or not safely.
func (s Spec) validateBridges() error {
	seen := make(map[string]bool)
	for _, b := range s.Bridges {
		if err := b.validate(); err != nil {
			return fmt.Errorf("bridge %q: %w", b.Name, err)
		}
		if seen[b.Name] {
			return fmt.Errorf("bridge %q is there twice", b.Name)
		}
		seen[b.Name] = true
	}
	if (len(s.Bridges) > 0 || s.Helpers) && s.Network == "host" {
		return errors.New(`bridges need a network namespace of the container's own: network "host" has none`)
	}
	return nil
}

func (b Bridge) validate() error {
	rules, err := bridge.Compile(b.Forms)
	switch {
	case err != nil:
		return err
	case b.Name == "" || strings.HasPrefix(b.Name, ".") || strings.ContainsAny(b.Name, "/\x00") || b.Name == program.Supervisor, b.Name == HelperCommand:
		return errors.New("it is not a command name")
	case !path.IsAbs(b.Program) || path.Clean(b.Program) != b.Program:
		return fmt.Errorf("program %q must be a clean absolute path", b.Program)
	case b.OnHost:
		return b.validateOnHost(rules)
	case b.In == nil:
		return errors.New("it names no sandbox to run in")
	case !slices.Contains([]string{"", "none", "ro", "rw"}, b.Workspace):
		return fmt.Errorf("workspace %q is not one of none, ro, rw", b.Workspace)
	case len(b.Secrets) > 0 && b.Spec().Workspace != WorkspaceOwn:
		return errors.New("a program with secrets in its environment must not see the workspace, whose files could make it show them: " +
			"give its sandbox a credential for the host instead")
	case rules.HasPaths() && b.Spec().Workspace == WorkspaceOwn:
		return errors.New("paths need a workspace: ro or rw")
	}
	return b.Spec().validate()
}

// validateOnHost refuses what would let more run on this machine than the rules say.
func (b Bridge) validateOnHost(rules *bridge.Rules) error {
	switch {
	case b.In != nil:
		return errors.New("it runs on the host and in a sandbox: keep one")
	case !slices.Contains([]string{"", "none", "ro"}, b.Workspace):
		return fmt.Errorf("workspace %q is not one of none, ro: a program of the host gets copies of the files that are named", b.Workspace)
	case len(b.Secrets) > 0 && b.Workspace == "ro":
		return errors.New("a program with secrets in its environment must not see files of the workspace, which could make it show them")
	case rules.HasPaths() && b.Workspace != "ro":
		return errors.New("paths need a workspace: ro")
	case rules.TakesAnything():
		return errors.New("a program of the host needs a pattern for each argument that is not a path")
	}
	return nil
}

// bridgeHome is the home folder of a program that sees the session's workspace: there its configuration, such as .gitconfig,
// .curlrc or .npmrc, would be the caller's to write, and say what no argument may.
const bridgeHome = "/tmp"

// Environment is that of a program in the second container besides the fixed one, without its secrets.
func (b Bridge) Environment() map[string]string {
	env := make(map[string]string)
	if b.Spec().Workspace != WorkspaceOwn {
		env["HOME"] = bridgeHome
	}
	maps.Copy(env, b.Env)
	return env
}

// Limit is how long one call may take.
func (b Bridge) Limit() time.Duration {
	return cmp.Or(max(b.Timeout, 0), bridgeTimeout)
}

// HelperCommand is the bridged command by which the module flynn of a program calls its helper functions.
const HelperCommand = "flynn-call"
