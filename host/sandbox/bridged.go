package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	exitTimedOut  = 124
	exitSignalled = 128
)

// bridgeName returns the name of a bridge's container within its session. Agents cannot ask for a container by this name.
func bridgeName(name string) string { return "bridge:" + name }

// bridges answers calls of bridged commands and of helper functions.
type bridges struct {
	launch.Installation
	sessions getter
	egress   Egress
	secret   func(name string) string // may be nil

	mu      sync.Mutex
	helping map[*container.Container]*helping // keyed by the container of a running program
}

// getter returns the container of a session that bridged commands run in; *Manager implements it.
type getter interface {
	Get(ctx context.Context, session message.WorkspaceKey, name string, wanted spec.Spec) (*Session, error)
}

// Server implements launch.Bridges.
func (bs *bridges) Server(c *container.Container, s spec.Spec) *bridge.Server {
	var commands []bridge.Command
	for _, one := range s.Bridges {
		command, err := bs.command(c, one, s.WorkspaceDir)
		if err != nil { // cannot happen: Check has compiled them
			bs.Log.Error("cannot offer a bridge", "bridge", one.Name, "error", err)
			continue
		}
		commands = append(commands, command)
	}
	if s.Helpers {
		command, err := helperBridge(func() *helping { return bs.helpingOf(c) })
		if err != nil { // cannot happen: these rules are constant
			panic(err)
		}
		commands = append(commands, command)
	}
	return bridge.NewServer(commands, func(d bridge.Decision) {
		if isHelper(d) {
			return
		}
		bs.Log.Info("bridge call", "session", c.Session(), "bridge", d.Name, "allowed", d.Allowed, "reason", d.Reason)
		bs.egress.Bridged(c.Session(), d)
	}, func(d bridge.Decision) {
		if !isHelper(d) {
			bs.egress.BridgeEnded(c.Session(), d)
		}
	})
}

// help answers the calls of the program in a container until end is called.
func (bs *bridges) help(c *container.Container, h *helping) (end func()) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.helping[c] = h
	return func() {
		h.end()
		bs.mu.Lock()
		defer bs.mu.Unlock()
		delete(bs.helping, c)
	}
}

func (bs *bridges) helpingOf(c *container.Container) *helping {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	return bs.helping[c]
}

// isHelper reports whether the call is that of a helper function; Code.Helpers decides about it and records it.
func isHelper(d bridge.Decision) bool { return d.Name == spec.HelperCommand && d.Allowed }

// command returns a bridge as seen from one container.
func (bs *bridges) command(caller *container.Container, b spec.Bridge, inside string) (bridge.Command, error) {
	rules, err := bridge.Compile(b.Forms)
	if err != nil {
		return bridge.Command{}, err
	}
	c := bridge.Command{
		Name: b.Name, Rules: rules, Stdin: b.Stdin, Confine: bs.confined(caller, b),
		Secrets: func() []string { return slices.Collect(maps.Values(bs.secretsOf(b))) },
	}
	if !b.OnHost {
		c.Workspace = b.Paths(inside)
		c.Run = func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
			return bs.runBridged(ctx, caller, b, call, stdin, out)
		}
		return c, nil
	}
	there := "/" + rand.Text() // a path that no caller can have meant
	if b.Workspace == "ro" {
		c.Workspace = bridge.Workspace{Inside: inside, There: there}
	}
	c.Run = func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
		h := &hostCall{bs: bs, bridge: b, session: caller.Session(), there: there}
		return h.run(ctx, call, stdin, out)
	}
	return c, nil
}

// secretsOf returns the values of a bridge's secrets by variable.
func (bs *bridges) secretsOf(b spec.Bridge) map[string]string {
	values := make(map[string]string)
	for variable, name := range b.Secrets {
		if bs.secret != nil {
			values[variable] = bs.secret(name)
		}
	}
	return values
}

// withSecrets returns the variables of a program together with those that hold its bridge's secrets.
func (bs *bridges) withSecrets(b spec.Bridge, env map[string]string) (map[string]string, error) {
	all := make(map[string]string)
	maps.Copy(all, env)
	for variable, value := range bs.secretsOf(b) {
		if value == "" {
			return nil, fmt.Errorf("the secret for %s is not set", variable)
		}
		all[variable] = value
	}
	return all, nil
}

// runBridged runs an accepted call in the second container of the caller's session.
func (bs *bridges) runBridged(ctx context.Context, caller *container.Container, b spec.Bridge, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
	env, err := bs.withSecrets(b, b.Environment())
	if err != nil {
		return 0, err
	}
	s, err := bs.sessions.Get(ctx, caller.Session(), bridgeName(b.Name), b.Spec())
	if err != nil {
		return 0, err
	}
	r, err := s.execProgram(ctx, append([]string{b.Program}, call.Argv...), machine.Command{
		Dir: call.Dir, Env: env, Stdin: stdin, Timeout: b.Limit(), MaxOutput: b.MaxOutput,
		Progress: func(stream machine.Stream, p []byte) { out(stream == machine.Stderr, p) },
	})
	if err == nil {
		err = caller.RefreshWorkspace(ctx)
	}
	if err != nil {
		return 0, err
	}
	return bridgedResult(b, r, out)
}

// bridgedResult writes a note about omitted output and returns the exit code as a shell reports it.
func bridgedResult(b spec.Bridge, r machine.Result, out bridge.Output) (int, error) {
	if r.Dropped > 0 {
		out(false, nil)
		out(true, fmt.Appendf(nil, "flynn: %s: %d bytes of output were dropped\n", b.Name, r.Dropped))
	}
	switch {
	case r.TimedOut:
		return exitTimedOut, fmt.Errorf("ended after %v", b.Limit())
	case r.Signal != "":
		return exitSignalled + int(unix.SignalNum(r.Signal)), fmt.Errorf("ended by %s", r.Signal)
	}
	return r.ExitCode, nil
}

// confined returns a check of the paths of a call that shares the workspace, which is brought up to date before; nil if none is shared.
func (bs *bridges) confined(caller *container.Container, b spec.Bridge) func(bridge.Accepted) error {
	if b.Spec().Workspace == spec.WorkspaceOwn {
		return nil
	}
	return func(call bridge.Accepted) error {
		if err := caller.FetchWorkspace(context.Background()); err != nil {
			return fmt.Errorf("copy the workspace: %w", err)
		}
		return bs.confine(caller.Session(), append(slices.Clone(call.Paths), call.Dir))
	}
}

// confine refuses paths that lead out of the workspace by a link. If a link is changed afterwards, it leads to files of the second
// container, which has no secret in a file where it shares a workspace.
func (bs *bridges) confine(session message.WorkspaceKey, paths []string) error {
	root, err := os.OpenRoot(bs.Workspaces.Path(session))
	if err != nil {
		return fmt.Errorf("look into the workspace: %w", err)
	}
	defer root.Close()
	for _, p := range paths {
		if _, err := root.Stat(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("path %q leads out of the workspace or cannot be read", p)
		}
	}
	return nil
}
