package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

// Bridge is a command that programs in a sandbox may call and that runs in a second container of the session, made of a
// specification of its own. The two share nothing but, if at all, the workspace: what the second has in its environment,
// or is given by its proxy, the first never sees.
type Bridge struct {
	Name string // the command's
	// In is the second container's specification; bridges of its own are left out. It is nil where OnHost is set.
	In *Spec
	// OnHost has the program run on this machine, with the rights of this process: see hostCall. Workspace is none or ro then, ro meaning
	// that the files which its arguments name are handed over as copies.
	OnHost bool `json:",omitempty"`
	// Program is the absolute path of the program there.
	Program string
	Forms   []bridge.Form
	// Env is the program's environment besides the fixed one, and Secrets names the secrets among it; see Config.Secret.
	// A program that has secrets in its environment has no workspace: files there could make it show them.
	Env, Secrets map[string]string
	// Workspace is what it sees of the session's: none, ro or rw. none
	Workspace string
	Timeout   time.Duration // 1 minute
	MaxOutput int           // of each stream, in bytes; machine.DefaultMaxOutput
	Stdin     bool          // it is given the caller's standard input
}

// How a container sees its session's workspace.
const (
	workspaceWritable = ""
	workspaceReadOnly = "ro"
	workspaceOwn      = "none" // a folder of its own, in its place
)

const (
	bridgeFolder = "/.flynn/bin"
	bridgePrefix = "bridges-"
	// bridgeTimeout is a bridged command's if none is configured.
	bridgeTimeout = time.Minute
	exitTimedOut  = 124
	exitSignalled = 128
)

// bridgeName is the name of a bridge's container among its session's. No agent can ask for one of that name.
func bridgeName(name string) string { return "bridge:" + name }

// spec is that of the second container.
func (b Bridge) spec() Spec {
	var s Spec
	if b.In != nil {
		s = *b.In
	}
	s.Bridges, s.Start = nil, nil
	switch b.Workspace {
	case "rw":
		s.Workspace = workspaceWritable
	case "ro":
		s.Workspace = workspaceReadOnly
	default:
		s.Workspace = workspaceOwn
	}
	return s.WithDefaults()
}

// workspace is how paths are translated; the zero value if there is none to share.
func (b Bridge) workspace(inside string) bridge.Workspace {
	if w := b.spec(); w.Workspace != workspaceOwn {
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
	case b.Name == "" || strings.HasPrefix(b.Name, ".") || strings.ContainsAny(b.Name, "/\x00") || b.Name == program.Supervisor, b.Name == helperCommand:
		return errors.New("it is no name for a command")
	case !path.IsAbs(b.Program) || path.Clean(b.Program) != b.Program:
		return fmt.Errorf("program %q must be a clean absolute path", b.Program)
	case b.OnHost:
		return b.validateOnHost(rules)
	case b.In == nil:
		return errors.New("it names no sandbox to run in")
	case !slices.Contains([]string{"", "none", "ro", "rw"}, b.Workspace):
		return fmt.Errorf("workspace %q is not one of none, ro, rw", b.Workspace)
	case len(b.Secrets) > 0 && b.spec().Workspace != workspaceOwn:
		return errors.New("a program with secrets in its environment must not see the workspace, whose files could make it show them: " +
			"give its sandbox a credential for the host instead")
	case rules.HasPaths() && b.spec().Workspace == workspaceOwn:
		return errors.New("paths need a workspace: ro or rw")
	}
	return b.spec().validate()
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
		return errors.New("a program of the host needs a pattern for each argument that is no path")
	}
	return nil
}

// offerBridges puts the commands into the container and serves them.
func (m *Manager) offerBridges(o *launchSpec, spec Spec) {
	var names []string
	for _, b := range spec.Bridges {
		names = append(names, b.Name)
	}
	if spec.Helpers {
		names = append(names, helperCommand)
	}
	if len(names) == 0 {
		return
	}
	folder, err := m.linkBridges(names)
	if err != nil {
		m.log.Error("cannot offer bridges", "error", err)
		return
	}
	o.hello.Bridge = true
	o.container.Mounts = append(o.container.Mounts, Mount{Source: folder, Target: bridgeFolder, ReadOnly: true})
	m.serveBridges(o, spec)
}

// linkBridges makes a folder with a link to the supervisor for each command. Its name says what is in it.
func (m *Manager) linkBridges(names []string) (string, error) {
	slices.Sort(names)
	folder := filepath.Join(m.run, bridgePrefix+short(names...))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Symlink(supervisorPath, filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return folder, nil
}

// serveBridges has calls from the container answered.
func (m *Manager) serveBridges(o *launchSpec, spec Spec) {
	o.bridges = func(b *box) *bridge.Server {
		var commands []bridge.Command
		for _, one := range spec.Bridges {
			c, err := m.command(b, one, spec.WorkspaceDir)
			if err != nil { // validate has compiled them
				m.log.Error("cannot offer a bridge", "bridge", one.Name, "error", err)
				continue
			}
			commands = append(commands, c)
		}
		if spec.Helpers {
			c, err := helperBridge(b.getHelping)
			if err != nil { // its rules are our own
				panic(err)
			}
			commands = append(commands, c)
		}
		return bridge.NewServer(commands, func(d bridge.Decision) {
			if isHelper(d) {
				return
			}
			m.log.Info("bridge call", "session", b.owner(), "bridge", d.Name, "allowed", d.Allowed, "reason", d.Reason)
			m.config.Egress.Bridged(b.owner(), d)
		}, func(d bridge.Decision) {
			if !isHelper(d) {
				m.config.Egress.BridgeEnded(b.owner(), d)
			}
		})
	}
}

// isHelper reports whether a call is one of a helper function, which Code.Helpers decides about and records.
func isHelper(d bridge.Decision) bool { return d.Name == helperCommand && d.Allowed }

// command is a bridge as the calls from one container find it.
func (m *Manager) command(caller *box, b Bridge, inside string) (bridge.Command, error) {
	rules, err := bridge.Compile(b.Forms)
	if err != nil {
		return bridge.Command{}, err
	}
	if b.OnHost {
		return m.hostCommand(caller, b, rules, inside), nil
	}
	return bridge.Command{
		Name: b.Name, Rules: rules, Workspace: b.workspace(inside), Stdin: b.Stdin,
		Confine: m.confined(caller, b),
		Secrets: func() []string { return slices.Collect(maps.Values(m.secretsOf(b))) },
		Run: func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
			return m.runBridged(ctx, caller.owner(), b, call, stdin, out)
		},
	}, nil
}

// hostCommand is a bridge to a program of this machine.
func (m *Manager) hostCommand(caller *box, b Bridge, rules *bridge.Rules, inside string) bridge.Command {
	c := bridge.Command{
		Name: b.Name, Rules: rules, Stdin: b.Stdin,
		Confine: m.confined(caller, b),
		Secrets: func() []string { return slices.Collect(maps.Values(m.secretsOf(b))) },
	}
	there := randomPlace()
	if b.Workspace == "ro" {
		c.Workspace = bridge.Workspace{Inside: inside, There: there}
	}
	c.Run = func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
		h := &hostCall{m: m, bridge: b, session: caller.owner(), there: there}
		return h.run(ctx, call, stdin, out)
	}
	return c
}

// secretsOf are the values of a bridge's secrets by variable.
func (m *Manager) secretsOf(b Bridge) map[string]string {
	values := make(map[string]string)
	for variable, name := range b.Secrets {
		if m.config.Secret != nil {
			values[variable] = m.config.Secret(name)
		}
	}
	return values
}

// runBridged runs an accepted call in the session's second container.
func (m *Manager) runBridged(ctx context.Context, session string, b Bridge, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
	spec := b.spec()
	env := b.environment(spec)
	for variable, value := range m.secretsOf(b) {
		if value == "" {
			return 0, fmt.Errorf("the secret for %s is not set", variable)
		}
		env[variable] = value
	}
	s, err := m.Get(ctx, session, bridgeName(b.Name), spec)
	if err != nil {
		return 0, err
	}
	r, err := s.execProgram(ctx, append([]string{b.Program}, call.Argv...), machine.Command{
		Dir: call.Dir, Env: env, Stdin: stdin, Timeout: b.timeout(), MaxOutput: b.MaxOutput,
		Progress: func(stream machine.Stream, p []byte) { out(stream == machine.Stderr, p) },
	})
	if err != nil {
		return 0, err
	}
	return b.verdict(r, out)
}

// verdict says what was left out of the output, and returns the exit code.
func (b Bridge) verdict(r machine.Result, out bridge.Output) (int, error) {
	if r.Dropped > 0 {
		out(false, nil)
		out(true, fmt.Appendf(nil, "flynn: %s: %d bytes of output were dropped\n", b.Name, r.Dropped))
	}
	return bridgedCode(r, b.timeout())
}

// bridgeHome is the home folder of a program that sees the session's workspace: there its configuration, such as .gitconfig,
// .curlrc or .npmrc, would be the caller's to write, and say what no argument may.
const bridgeHome = "/tmp"

// environment is the program's besides the fixed one, without its secrets.
func (b Bridge) environment(spec Spec) map[string]string {
	env := make(map[string]string)
	if spec.Workspace != workspaceOwn {
		env["HOME"] = bridgeHome
	}
	maps.Copy(env, b.Env)
	return env
}

func (b Bridge) timeout() time.Duration {
	if b.Timeout > 0 {
		return b.Timeout
	}
	return bridgeTimeout
}

// bridgedCode is the exit code as a shell would tell it.
func bridgedCode(r machine.Result, limit time.Duration) (int, error) {
	switch {
	case r.TimedOut:
		return exitTimedOut, fmt.Errorf("ended after %v", limit)
	case r.Signal != "":
		return exitSignalled + int(unix.SignalNum(r.Signal)), fmt.Errorf("ended by %s", r.Signal)
	}
	return r.ExitCode, nil
}

// confined judges the paths of a call that shares the workspace; nil if there is none to share.
func (m *Manager) confined(caller *box, b Bridge) func(bridge.Accepted) error {
	if b.spec().Workspace == workspaceOwn {
		return nil
	}
	return func(call bridge.Accepted) error {
		return m.confine(caller.owner(), append(slices.Clone(call.Paths), call.Dir))
	}
}

// confine refuses paths that a link leads out of the workspace. A link that is swapped afterwards leads to files of the
// second container, of which none has a secret where there is a workspace.
func (m *Manager) confine(session string, paths []string) error {
	root, err := os.OpenRoot(m.workspaces.Path(session))
	if err != nil {
		return fmt.Errorf("look into the workspace: %w", err)
	}
	defer root.Close()
	for _, p := range paths {
		if _, err := root.Stat(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("path %q leads out of the workspace, or cannot be looked at", p)
		}
	}
	return nil
}

// execProgram runs a program without a shell; cmd's script does not count.
func (s *Session) execProgram(ctx context.Context, argv []string, cmd machine.Command) (machine.Result, error) {
	b, release, err := s.acquire(ctx)
	if err != nil {
		return machine.Result{}, err
	}
	defer release()
	body, err := execBody(cmd, s.spec.WorkspaceDir)
	if err != nil {
		return machine.Result{}, err
	}
	for _, word := range argv {
		body.Argv = append(body.Argv, []byte(word))
	}
	body.Cwd, body.Dir = []byte(path.Join(s.spec.WorkspaceDir, cmd.Dir)), nil
	return b.execute(ctx, body, cmd)
}
