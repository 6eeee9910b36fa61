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
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	bridgeFolder  = "/.flynn/bin"
	bridgePrefix  = "bridges-"
	exitTimedOut  = 124
	exitSignalled = 128
)

// bridgeName is the name of a bridge's container among its session's. No agent can ask for one of that name.
func bridgeName(name string) string { return "bridge:" + name }

// offerBridges puts the commands into the container and serves them.
func (m *Manager) offerBridges(o *launchSpec, wanted spec.Spec) {
	var names []string
	for _, b := range wanted.Bridges {
		names = append(names, b.Name)
	}
	if wanted.Helpers {
		names = append(names, spec.HelperCommand)
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
	o.container.Mounts = append(o.container.Mounts, driver.Mount{Source: folder, Target: bridgeFolder, ReadOnly: true})
	m.serveBridges(o, wanted)
}

// linkBridges makes a folder with a link to the supervisor for each command. Its name says what is in it.
func (m *Manager) linkBridges(names []string) (string, error) {
	slices.Sort(names)
	folder := filepath.Join(m.run, bridgePrefix+spec.Short(names...))
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
func (m *Manager) serveBridges(o *launchSpec, wanted spec.Spec) {
	o.bridges = func(b *box) *bridge.Server {
		var commands []bridge.Command
		for _, one := range wanted.Bridges {
			c, err := m.command(b, one, wanted.WorkspaceDir)
			if err != nil { // validate has compiled them
				m.log.Error("cannot offer a bridge", "bridge", one.Name, "error", err)
				continue
			}
			commands = append(commands, c)
		}
		if wanted.Helpers {
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
func isHelper(d bridge.Decision) bool { return d.Name == spec.HelperCommand && d.Allowed }

// command is a bridge as the calls from one container find it.
func (m *Manager) command(caller *box, b spec.Bridge, inside string) (bridge.Command, error) {
	rules, err := bridge.Compile(b.Forms)
	if err != nil {
		return bridge.Command{}, err
	}
	if b.OnHost {
		return m.hostCommand(caller, b, rules, inside), nil
	}
	return bridge.Command{
		Name: b.Name, Rules: rules, Workspace: b.Paths(inside), Stdin: b.Stdin,
		Confine: m.confined(caller, b),
		Secrets: func() []string { return slices.Collect(maps.Values(m.secretsOf(b))) },
		Run: func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
			return m.runBridged(ctx, caller.owner(), b, call, stdin, out)
		},
	}, nil
}

// hostCommand is a bridge to a program of this machine.
func (m *Manager) hostCommand(caller *box, b spec.Bridge, rules *bridge.Rules, inside string) bridge.Command {
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
func (m *Manager) secretsOf(b spec.Bridge) map[string]string {
	values := make(map[string]string)
	for variable, name := range b.Secrets {
		if m.config.Secret != nil {
			values[variable] = m.config.Secret(name)
		}
	}
	return values
}

// runBridged runs an accepted call in the session's second container.
func (m *Manager) runBridged(ctx context.Context, session string, b spec.Bridge, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
	spec := b.Spec()
	env := b.Environment()
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
		Dir: call.Dir, Env: env, Stdin: stdin, Timeout: b.Limit(), MaxOutput: b.MaxOutput,
		Progress: func(stream machine.Stream, p []byte) { out(stream == machine.Stderr, p) },
	})
	if err != nil {
		return 0, err
	}
	return bridgedResult(b, r, out)
}

// bridgedResult says what was left out of the output, and returns the exit code.
func bridgedResult(b spec.Bridge, r machine.Result, out bridge.Output) (int, error) {
	if r.Dropped > 0 {
		out(false, nil)
		out(true, fmt.Appendf(nil, "flynn: %s: %d bytes of output were dropped\n", b.Name, r.Dropped))
	}
	return bridgedCode(r, b.Limit())
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
func (m *Manager) confined(caller *box, b spec.Bridge) func(bridge.Accepted) error {
	if b.Spec().Workspace == spec.WorkspaceOwn {
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
