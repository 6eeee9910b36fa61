package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// Sandboxes are the sandboxes of a configuration for commands that work on them beside a running host, or without one.
type Sandboxes struct {
	Driver   *docker.Driver
	Instance string
	Root     string // of the workspaces
	config   *config.Config
}

// OpenSandboxes reads what the host would; it does not touch the engine. Close the Driver.
func OpenSandboxes(c *config.Config) (*Sandboxes, error) {
	if err := os.MkdirAll(c.Store.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	instance, err := instanceName(c.Store.Dir)
	if err != nil {
		return nil, err
	}
	driver, err := docker.New(engineOf(c.Sandbox))
	if err != nil {
		return nil, err
	}
	return &Sandboxes{Driver: driver, Instance: instance, Root: filepath.Join(c.Store.Dir, "workspaces"), config: c}, nil
}

// Spec is what the sandbox of that name is made of; "" is [sandbox].
func (s *Sandboxes) Spec(name string) (sandbox.Spec, error) {
	if name == "" {
		return bridgedSpec(s.config, s.config.Sandbox), nil
	}
	if of, ok := strings.CutPrefix(name, cliPrefix); ok && slices.Contains(cliAgents(s.config), of) {
		return cliSpec(s.config, of), nil
	}
	named, is := s.config.Sandboxes[name]
	if !is {
		return sandbox.Spec{}, fmt.Errorf("there is no [sandboxes.%s]: the configuration has %s", name, strings.Join(s.names(), ", "))
	}
	return bridgedSpec(s.config, named), nil
}

func (s *Sandboxes) names() []string {
	names := slices.Sorted(maps.Keys(s.config.Sandboxes))
	return append([]string{"[sandbox]"}, names...)
}

// MountRules say which folders of the host the sandboxes may see.
func (s *Sandboxes) MountRules() mounts.Rules { return s.config.MountRules(os.Getenv) }

// Manager makes sandboxes of this instance. It removes no leftovers and keeps no pool. What a sandbox may not reach is told to log: the
// store, where a host notes it, may be a running host's.
func (s *Sandboxes) Manager(log *slog.Logger) (*sandbox.Manager, error) {
	supervisor, err := program.FindSupervisor(log)
	if err != nil {
		return nil, err
	}
	return sandbox.New(sandbox.Config{
		Driver: s.Driver, Instance: s.Instance, WorkspaceRoot: s.Root, Spec: spec(s.config.Sandbox), Supervisor: supervisor, Log: log,
		MountRules: s.MountRules, Secret: func(name string) string { return s.config.Secrets()[name].Reveal() },
		Decided: func(_ string, d egress.Decision) {
			if !d.Allowed {
				log.Warn("the proxy refused a connection", "method", d.Method, "host", d.Host, "port", d.Port, "reason", d.Reason)
			}
		},
	})
}

// Prune removes the containers that an earlier host of this store has left and the images that no sandbox needs any more,
// and returns both. A host that runs looks after its own, so then it refuses; none can start meanwhile. What has background
// processes goes as well.
func (s *Sandboxes) Prune(ctx context.Context, log *slog.Logger) (containers, images []sandbox.Owned, err error) {
	unlock, err := lockStore(s.config.Store.Dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	manager, err := s.Manager(log)
	if err != nil {
		return nil, nil, err
	}
	containers, err = manager.Prune(ctx)
	containers = sandbox.WithOwners(s.Root, s.Instance, containers)
	if err != nil {
		return containers, nil, err
	}
	images, err = manager.PruneImages(ctx, s.specs())
	return containers, images, err
}

// PruneVolumes removes the volumes of this store with what is in them, and returns them. It refuses while a host runs, as
// Prune does, which comes first: a volume that a container uses stays.
func (s *Sandboxes) PruneVolumes(ctx context.Context, log *slog.Logger) ([]sandbox.Owned, error) {
	unlock, err := lockStore(s.config.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	left, err := s.Driver.ListVolumes(ctx, s.Instance)
	if err != nil {
		return nil, err
	}
	manager, err := s.Manager(log)
	if err != nil {
		return nil, err
	}
	return left, manager.RemoveVolumes(ctx, func(sandbox.Owned) bool { return true })
}

// Containers are those of this store, each with the session and the sandbox that it is of in its labels.
func (s *Sandboxes) Containers(ctx context.Context) ([]sandbox.Owned, error) {
	owned, err := s.Driver.List(ctx, s.Instance)
	return sandbox.WithOwners(s.Root, s.Instance, owned), err
}

// Forget removes a session's containers and volumes of this store, while no host runs.
func (s *Sandboxes) Forget(ctx context.Context, session string) error {
	ours := func(o sandbox.Owned) bool { // never trust a filter with somebody else's work
		return o.Labels[sandbox.LabelInstance] == s.Instance && o.Labels[sandbox.LabelSession] == session
	}
	containers, err := s.Containers(ctx)
	if err != nil {
		return err
	}
	volumes, err := s.Driver.ListVolumes(ctx, s.Instance)
	for _, c := range containers {
		if ours(c) {
			err = errors.Join(err, s.Driver.Remove(ctx, c.ID))
		}
	}
	for _, v := range volumes {
		if ours(v) {
			err = errors.Join(err, s.Driver.RemoveVolume(ctx, v.Name))
		}
	}
	return err
}

// lockStore takes the lock that a running host holds.
func lockStore(dir string) (unlock func(), err error) {
	f, err := sqlite.Lock(dir)
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, fmt.Errorf("a host is running on %s and looks after its own sandboxes: stop it first", dir)
	}
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Place says where an agent's commands run for people at one kind of door, and why.
type Place struct {
	Agent  string `json:"agent"`
	Door   string `json:"door"` // channel, or local for the web page and the terminal
	Action string `json:"action"`
	Where  string `json:"where,omitempty"` // "host", the sandbox's name, or "own container"
	Image  string `json:"image,omitempty"`
	// Strategy is how the image comes about.
	Strategy string `json:"strategy,omitempty"`
	Network  string `json:"network,omitempty"`
	// Disk is what the workspace may hold, and who sees to that.
	Disk    string   `json:"disk,omitempty"`
	Reasons []string `json:"reasons"`
	// Sandboxed says that it is a sandbox, Sandbox is its name, "" for [sandbox]; Engine and Runtime are what it is made by.
	Sandboxed bool   `json:"sandboxed"`
	Sandbox   string `json:"sandbox,omitempty"`
	Engine    string `json:"engine,omitempty"`
	Runtime   string `json:"runtime,omitempty"`
	// Language is that of the programs that it is about, of an agent of kind code.
	Language string `json:"language,omitempty"`
}

// localDoor stands for the web page and the terminal, which are treated alike.
const localDoor = "local"

// Explain has the host's own enforcer decide about a shell command of every agent at every kind of door, and about the program of an agent
// that is one or writes them. Policies are not asked: they decide about single calls.
func (s *Sandboxes) Explain(ctx context.Context) ([]Place, error) {
	engine, available := sandbox.Capabilities{}, errSandboxOff
	if s.config.Sandbox.Enabled {
		engine, available = s.Driver.Capabilities(ctx)
	}
	// supports says why the engine cannot make what is asked of it.
	supports := func(made sandbox.Spec) error {
		if available != nil {
			return available
		}
		return engine.Supports(made)
	}
	registry := tool.NewRegistry()
	if err := builtin.Register(registry, builtin.Unconnected()); err != nil {
		return nil, err
	}
	enforcer, err := tool.NewEnforcer(tool.EnforcerConfig{Registry: registry})
	if err != nil {
		return nil, err
	}
	offered, err := registry.Offered("full", tool.Overrides{})
	if err != nil {
		return nil, err
	}
	images := s.imageNames(ctx, available)
	places := []Place{}
	for _, name := range slices.Sorted(maps.Keys(s.config.Agents)) {
		for _, door := range []string{route.DoorChannel, localDoor} {
			subject := s.subject(name, door, supports)
			subject.Offered = offered
			var v tool.Verdict
			switch s.config.Agents[name].Kind {
			case agent.KindCode:
				own, err := s.codePlaces(ctx, enforcer, subject, supports, images)
				if err != nil {
					return nil, err
				}
				places = append(places, own...)
				continue
			case agent.KindCLI:
				if v, err = s.program(ctx, enforcer, &subject, supports); err != nil {
					return nil, err
				}
			default:
				call := model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{"command":"true"}`)}
				if v, _, err = enforcer.DryRun(ctx, subject, call, nil); err != nil {
					return nil, err
				}
			}
			p := s.place(name, door, subject.Sandbox, v)
			if made, err := s.Spec(v.SandboxName); err == nil && v.Sandbox {
				p.Image, p.Strategy = images(made)
			}
			places = append(places, p)
		}
	}
	return places, nil
}

// codePlaces decides about a program in each language that an agent of kind code writes.
func (s *Sandboxes) codePlaces(
	ctx context.Context, enforcer *tool.Enforcer, subject tool.Subject, supports func(sandbox.Spec) error,
	images func(sandbox.Spec) (string, string),
) (places []Place, err error) {
	c := s.config.Agents[subject.Agent].Code
	for _, language := range codeLanguages(c) {
		made := codeSpec(c, language, s.config.Sandbox.Runtime)
		registry := tool.NewRegistry()
		if err := registry.Register(code.New(code.Config{Languages: map[string]sandbox.Spec{language: made}})); err != nil {
			return nil, err
		}
		args, err := json.Marshal(map[string]string{"language": language, "program": "1"})
		if err != nil {
			return nil, err
		}
		subject.Offered, subject.Sandbox.Own = tool.NewSet(code.Name), supports(made)
		v, _, err := enforcer.With(registry).DryRun(ctx, subject, model.ToolCall{Name: code.Name, Args: args}, nil)
		if err != nil {
			return nil, err
		}
		p := Place{
			Agent: subject.Agent, Door: subject.Door, Action: string(v.Action), Language: language,
			Reasons: append([]string{fmt.Sprintf("[agent_configs.%s] kind = \"code\", programs in %s", subject.Agent, language)}, v.Reasons...),
		}
		if v.Sandbox && v.Action != tool.Deny {
			p.Where, p.Sandboxed, p.Network, p.Disk, p.Runtime, p.Engine = v.Where, true, made.Network, diskOf(made), made.Runtime, s.Driver.Address()
			p.Image, p.Strategy = images(made)
		}
		places = append(places, p)
	}
	return places, nil
}

// program decides about a run of the program that an agent is, which is in its sandbox at every door.
func (s *Sandboxes) program(
	ctx context.Context, enforcer *tool.Enforcer, subject *tool.Subject, supports func(sandbox.Spec) error,
) (tool.Verdict, error) {
	a := &agent.Agent{Name: subject.Agent, Sandboxed: s.config.Sandbox.Enabled && s.config.Agents[subject.Agent].Sandbox.Enabled}
	if err := assemble.WithProgram(a, s.config); err != nil {
		return tool.Verdict{}, err
	}
	subject.Offered = a.Offered
	subject.Sandbox.Configured, subject.Sandbox.Name, subject.Sandbox.OnUnavailable = a.Sandboxed, a.Sandbox, tool.UnavailableDeny
	if made, err := s.Spec(a.Sandbox); err == nil {
		subject.Sandbox.Available = supports(made)
	}
	v, _, err := enforcer.With(a.Registry).DryRun(ctx, *subject, model.ToolCall{Name: cli.ToolName, Args: json.RawMessage(`{"prompt":"hello"}`)}, nil)
	if err != nil {
		return v, err
	}
	if why := a.RefusesCLI(subject.LocalDoor, true); why != "" {
		v.Action, v.Sandbox, v.SandboxName, v.Where = tool.Deny, false, "", ""
		v.Reasons = append(v.Reasons, why)
	}
	return v, nil
}

// subject is a turn's, as far as it decides about the place.
func (s *Sandboxes) subject(name string, door string, supports func(sandbox.Spec) error) tool.Subject {
	c, a := s.config, s.config.Agents[name]
	local := door != route.DoorChannel
	state := tool.SandboxState{
		Configured: c.Sandbox.Enabled && a.Sandbox.Enabled && (!local || c.Sandbox.LocalDoors), Name: a.Sandbox.Name,
		OnUnavailable: c.Sandbox.OnUnavailable,
	}
	made, err := s.Spec(a.Sandbox.Name)
	if err == nil {
		err = supports(made)
	}
	state.Available = err
	return tool.Subject{Agent: name, Door: door, Role: "owner", LocalDoor: local, Approve: a.Approve, Sandbox: state}
}

func (s *Sandboxes) place(name string, door string, state tool.SandboxState, v tool.Verdict) Place {
	p := Place{Agent: name, Door: door, Action: string(v.Action), Where: v.Where, Reasons: s.reasons(name, door, state)}
	if v.Action == tool.Deny {
		p.Where = ""
	}
	if v.Sandbox {
		if made, err := s.Spec(v.SandboxName); err == nil {
			p.Network, p.Runtime, p.Disk = made.Network, made.Runtime, diskOf(made)
			p.Sandboxed, p.Sandbox, p.Engine = true, v.SandboxName, s.Driver.Address()
		}
	}
	p.Reasons = append(p.Reasons, v.Reasons...)
	return p
}

// diskOf says how the limit of a workspace is kept. No engine here gives a workspace a file system of a size.
func diskOf(s sandbox.Spec) string {
	if s.DiskBytes == 0 {
		return "no limit"
	}
	return quota.Size(s.DiskBytes) + ", kept by Flynn's looks"
}

// reasons are the settings that lead there; what the enforcer has to say comes after them.
func (s *Sandboxes) reasons(name string, door string, state tool.SandboxState) []string {
	switch {
	case !s.config.Sandbox.Enabled:
		return []string{"[sandbox] enabled = false"}
	case !s.config.Agents[name].Sandbox.Enabled:
		return []string{fmt.Sprintf("[agent_configs.%s] sandbox = false", name)}
	case s.config.Agents[name].Kind == agent.KindCLI:
		return []string{fmt.Sprintf("[agent_configs.%s] kind = \"cli\"", name)}
	case !state.Configured:
		return []string{"[sandbox] local_doors = false"}
	case state.Name != "":
		return []string{fmt.Sprintf("[agent_configs.%s] sandbox = %q", name, state.Name)}
	}
	return []string{"[sandbox] enabled = true"}
}
