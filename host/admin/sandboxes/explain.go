package sandboxes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// Placement says where an agent's commands run for users of one kind of frontend, and why.
type Placement struct {
	Agent  string `json:"agent"`
	Door   string `json:"door"` // channel, or local for the web page and the terminal
	Action string `json:"action"`
	Where  string `json:"where,omitempty"` // "host", the sandbox's name, or "own container"
	Image  string `json:"image,omitempty"`
	// Strategy is how the image is built.
	Strategy string `json:"strategy,omitempty"`
	Network  string `json:"network,omitempty"`
	// Disk is the limit of the workspace, and how it is enforced.
	Disk    string   `json:"disk,omitempty"`
	Reasons []string `json:"reasons"`
	// Sandboxed is set for a sandbox; Sandbox is its name, "" for [sandbox], and Engine and Runtime run it.
	Sandboxed bool   `json:"sandboxed"`
	Sandbox   string `json:"sandbox,omitempty"`
	Engine    string `json:"engine,omitempty"`
	Runtime   string `json:"runtime,omitempty"`
	// Language is set for programs of an agent of kind code.
	Language string `json:"language,omitempty"`
}

// localFrontends stands for the web page and the terminal, which are treated alike.
const localFrontends = "local"

// explainer explains where the commands of agents run.
type explainer struct {
	admin    *Admin
	config   *config.Config
	enforcer *tool.Enforcer
	offered  tool.Set
	images   func(spec.Spec) (ref, strategy string)
	engine   driver.Capabilities
	missing  error // why there is no engine
}

// Explain lets the host's own enforcer decide about a shell command of every agent at every kind of frontend, and about the programs of
// agents of kind cli and code. Policies are not asked, because they decide about single calls.
func (a *Admin) Explain(ctx context.Context) ([]Placement, error) {
	c := a.config
	e := explainer{admin: a, config: c, missing: fleet.ErrOff}
	if c.Sandbox.Enabled {
		if e.engine, e.missing = a.Driver.Capabilities(ctx); e.missing == nil {
			e.missing = fleet.Proved(ctx, a.Driver, a.specs)
		}
	}
	registry := tool.NewRegistry()
	if err := builtin.Register(registry, builtin.Unconnected()); err != nil {
		return nil, err
	}
	var err error
	if e.enforcer, err = tool.NewEnforcer(tool.EnforcerConfig{Registry: registry}); err != nil {
		return nil, err
	}
	if e.offered, err = registry.Offered("full", tool.Overrides{}); err != nil {
		return nil, err
	}
	e.images = a.imageNames(ctx, e.missing == nil)
	all := []Placement{}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		for _, frontend := range []string{route.FrontendChannel, localFrontends} {
			some, err := e.placements(ctx, e.subject(name, frontend))
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// supports returns why the engine cannot make such a container, or nil.
func (e *explainer) supports(made spec.Spec) error {
	if e.missing != nil {
		return e.missing
	}
	return fleet.Supports(e.admin.Driver, e.engine, made)
}

func (e *explainer) placements(ctx context.Context, subject tool.Subject) ([]Placement, error) {
	var v tool.Decision
	var err error
	switch e.config.Agents[subject.Agent].Kind {
	case agent.KindCode:
		return e.code(ctx, subject)
	case agent.KindCLI:
		v, err = e.program(ctx, &subject)
	default:
		call := model.ToolCall{Name: "shell.exec", Args: json.RawMessage(`{"command":"true"}`)}
		v, _, err = e.enforcer.DryRun(ctx, subject, call, nil)
	}
	if err != nil {
		return nil, err
	}
	p := Placement{
		Agent: subject.Agent, Door: subject.Door, Action: string(v.Action), Where: v.Where, Reasons: append(e.settings(subject), v.Reasons...),
	}
	if v.Action == tool.Deny {
		p.Where = ""
	}
	if made, err := e.admin.Spec(v.SandboxName); err == nil && v.Sandbox {
		e.describe(&p, made)
		p.Sandbox = v.SandboxName
	}
	return []Placement{p}, nil
}

// describe adds details of a sandbox.
func (e *explainer) describe(p *Placement, made spec.Spec) {
	p.Sandboxed, p.Network, p.Disk, p.Runtime, p.Engine = true, made.Network, diskOf(made), made.Runtime, e.admin.Driver.Address()
	p.Image, p.Strategy = e.images(made)
	if weak := e.engine.NotHeld(made.Prefers); weak != "" {
		p.Reasons = append(p.Reasons, "limits "+weak)
	}
}

// code decides about a program in each language of an agent of kind code.
func (e *explainer) code(ctx context.Context, subject tool.Subject) (all []Placement, err error) {
	c := e.config.Agents[subject.Agent].Code
	byLanguage := specs.Code(c, e.config.Sandbox)
	for _, language := range specs.CodeLanguages(c) {
		made := byLanguage[language]
		registry := tool.NewRegistry()
		if err := registry.Register(code.New(code.Config{Languages: map[string]spec.Spec{language: made}})); err != nil {
			return nil, err
		}
		args, err := json.Marshal(map[string]string{"language": language, "program": "1"})
		if err != nil {
			return nil, err
		}
		subject.Offered, subject.Sandbox.NoContainer = tool.NewSet(code.Name), func() error { return e.supports(made) }
		v, _, err := e.enforcer.With(registry).DryRun(ctx, subject, model.ToolCall{Name: code.Name, Args: args}, nil)
		if err != nil {
			return nil, err
		}
		p := Placement{
			Agent: subject.Agent, Door: subject.Door, Action: string(v.Action), Language: language,
			Reasons: append([]string{fmt.Sprintf("[agent_configs.%s] kind = \"code\", programs in %s", subject.Agent, language)}, v.Reasons...),
		}
		if v.Sandbox && v.Action != tool.Deny {
			p.Where = v.Where
			e.describe(&p, made)
		}
		all = append(all, p)
	}
	return all, nil
}

// program decides about the program of an agent of kind cli, which runs in its sandbox for every frontend.
func (e *explainer) program(ctx context.Context, subject *tool.Subject) (tool.Decision, error) {
	a := &agent.Agent{Name: subject.Agent, Sandboxed: e.config.Sandbox.Enabled && e.config.Agents[subject.Agent].Sandbox.Enabled}
	if err := assemble.WithProgram(a, e.config); err != nil {
		return tool.Decision{}, err
	}
	subject.Offered = a.Offered
	subject.Sandbox.Configured, subject.Sandbox.Name, subject.Sandbox.OnUnavailable = a.Sandboxed, a.Sandbox, tool.UnavailableDeny
	if made, err := e.admin.Spec(a.Sandbox); err == nil {
		subject.Sandbox.Unavailable = func() error { return e.supports(made) }
	}
	v, _, err := e.enforcer.With(a.Registry).DryRun(ctx, *subject, model.ToolCall{Name: cli.ToolName, Args: json.RawMessage(`{"prompt":"hello"}`)}, nil)
	if err != nil {
		return v, err
	}
	if why := a.RefusesCLI(subject.Local, true); why != "" {
		v.Action, v.Sandbox, v.SandboxName, v.Where = tool.Deny, false, "", ""
		v.Reasons = append(v.Reasons, why)
	}
	return v, nil
}

// subject returns the subject of a turn, with everything that affects the placement.
func (e *explainer) subject(name, frontend string) tool.Subject {
	c, a := e.config, e.config.Agents[name]
	local := frontend != route.FrontendChannel
	state := tool.SandboxState{
		Configured: c.Sandbox.Enabled && a.Sandbox.Enabled && (!local || c.Sandbox.LocalFrontends), Name: a.Sandbox.Name,
		OnUnavailable: c.Sandbox.OnUnavailable,
	}
	made, err := e.admin.Spec(a.Sandbox.Name)
	if err == nil {
		err = e.supports(made)
	}
	state.Unavailable = func() error { return err }
	return tool.Subject{Agent: name, Door: frontend, Role: "owner", Local: local, Approve: a.Approve, Sandbox: state, Offered: e.offered}
}

// diskOf describes how the limit of a workspace is enforced. No supported engine can limit its file system.
func diskOf(s spec.Spec) string {
	if s.DiskBytes == 0 {
		return "no limit"
	}
	return quota.Size(s.DiskBytes) + ", kept by Flynn's looks"
}

// settings returns the settings that decide the placement. The enforcer's reasons follow them.
func (e *explainer) settings(subject tool.Subject) []string {
	name := subject.Agent
	switch a := e.config.Agents[name]; {
	case !e.config.Sandbox.Enabled:
		return []string{"[sandbox] enabled = false"}
	case !a.Sandbox.Enabled:
		return []string{fmt.Sprintf("[agent_configs.%s] sandbox = false", name)}
	case a.Kind == agent.KindCLI:
		return []string{fmt.Sprintf("[agent_configs.%s] kind = \"cli\"", name)}
	case !subject.Sandbox.Configured:
		return []string{"[sandbox] local_frontends = false"}
	case subject.Sandbox.Name != "":
		return []string{fmt.Sprintf("[agent_configs.%s] sandbox = %q", name, subject.Sandbox.Name)}
	}
	return []string{"[sandbox] enabled = true"}
}
