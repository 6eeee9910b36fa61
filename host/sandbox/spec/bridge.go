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

// Bridge is a command that programs in a sandbox may call and that runs in a second container of the session, with its own specification.
// The two share at most the workspace: the first never sees what the second has in its environment or gets from its proxy.
type Bridge struct {
	Name string // of the command
	// In is the second container's specification; its own bridges are ignored. It is nil if OnHost is set.
	In *Spec
	// OnHost runs the program on this machine, with the rights of this process. Workspace must then be none or ro; ro provides copies of
	// the files that the arguments name.
	OnHost bool `json:",omitempty"`
	// Program is the absolute path of the program there.
	Program string
	Forms   []bridge.Form
	// Env is the program's environment besides the fixed one, and Secrets maps further variables to the names of secrets; see
	// sandbox.Config.Secret. A program with secrets in its environment has no workspace, because files there could make it reveal them.
	Env, Secrets map[string]string
	// Workspace is its access to the session's workspace: none, ro or rw; none by default.
	Workspace string
	Timeout   time.Duration // 1 minute by default
	MaxOutput int           // of each stream, in bytes; machine.DefaultMaxOutput by default
	Stdin     bool          // it gets the caller's standard input
}

// The access of a container to its session's workspace; see Spec.Workspace.
const (
	workspaceWritable = ""
	WorkspaceReadOnly = "ro"
	WorkspaceOwn      = "none" // a separate folder in its place
)

// Folder returns the name of the folder that a session's sandbox of that name works in: the session's workspace, or a separate one.
func (s Spec) Folder(session, sandbox string) string {
	if s.Workspace == WorkspaceOwn {
		return session + "\x00" + sandbox
	}
	return session
}

// bridgeTimeout is the default of Timeout.
const bridgeTimeout = time.Minute

// Spec returns the specification of the second container.
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

// Paths returns how paths are translated for a caller with the workspace at inside. It is the zero value if no workspace is shared.
func (b Bridge) Paths(inside string) bridge.Workspace {
	if w := b.Spec(); w.Workspace != WorkspaceOwn {
		return bridge.Workspace{Inside: inside, There: w.WorkspaceDir}
	}
	return bridge.Workspace{}
}

// validateBridges refuses bridges that could not be called, or not safely.
func (s Spec) validateBridges() error {
	seen := make(map[string]bool)
	for _, b := range s.Bridges {
		if err := b.validate(); err != nil {
			return fmt.Errorf("bridge %q: %w", b.Name, err)
		}
		if seen[b.Name] {
			return fmt.Errorf("bridge %q is defined twice", b.Name)
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
		return fmt.Errorf("program %q is not a clean absolute path", b.Program)
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
		return errors.New("it has both on_host and a sandbox: keep one")
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

// bridgeHome is the home folder of a program that shares the session's workspace: a home there would let the caller write its
// configuration, such as .gitconfig, .curlrc or .npmrc, and so bypass the rules for arguments.
const bridgeHome = "/tmp"

// Environment returns the environment of a program in the second container besides the fixed one, without secrets.
func (b Bridge) Environment() map[string]string {
	env := make(map[string]string)
	if b.Spec().Workspace != WorkspaceOwn {
		env["HOME"] = bridgeHome
	}
	maps.Copy(env, b.Env)
	return env
}

// Limit returns how long one call may take.
func (b Bridge) Limit() time.Duration {
	return cmp.Or(max(b.Timeout, 0), bridgeTimeout)
}

// HelperCommand is the bridged command by which a program's module flynn calls its helper functions.
const HelperCommand = "flynn-call"
