package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

func (c *checker) agents() {
	if len(c.cfg.Agents) == 0 {
		c.report(keyPath{"agent_configs"}, "no agent", `add one, such as [agent_configs.main] with system_prompt = "You are a helpful assistant."`)
	}
	for _, name := range sorted(c.cfg.Agents) {
		agent, at := c.cfg.Agents[name], keyPath{"agent_configs", name}
		c.tier(at.child("model_tier"), agent)
		c.code(at, agent)
		c.sandboxOf(at.child("sandbox"), agent.Sandbox)
		c.cli(at, name, agent)
		c.delegates(at.child("delegates"), name, agent.Delegates)
		c.globs(at.child("tool_overrides").child("allow"), agent.ToolOverrides.Allow)
		c.globs(at.child("tool_overrides").child("deny"), agent.ToolOverrides.Deny)
	}
}

// delegates refuses the agent itself, and agents of kind cli: the rights of the delegating agent cannot be enforced inside their
// containers.
func (c *checker) delegates(at keyPath, agent string, names []string) {
	for i, name := range names {
		if name == agent {
			c.report(at.index(i), "an agent cannot delegate to itself", "remove it")
			continue
		}
		if c.cfg.Agents[name].Kind == "cli" {
			c.report(at.index(i), fmt.Sprintf("agent %q is of kind cli and cannot be a delegate", name),
				"remove it; people reach it with [routing], or with /agent where [routing] selectable has it, and an agent whose image has the program can run it in its shell")
		}
	}
}

// tier checks that a model stands behind an agent. An agent of kind cli brings its own.
func (c *checker) tier(at keyPath, agent Agent) {
	if _, ok := c.cfg.Models[agent.ModelTier]; ok || agent.Kind == "cli" {
		return
	}
	hint := fmt.Sprintf("add [models.%s]", agent.ModelTier)
	if len(c.cfg.Models) > 0 {
		hint += ", or choose of " + list(sorted(c.cfg.Models))
	}
	c.report(at, fmt.Sprintf("no model tier %q", agent.ModelTier), hint)
}

// sandboxOf checks that the sandbox of an agent exists: without it the agent's tools would silently act on the host.
func (c *checker) sandboxOf(at keyPath, ref SandboxRef) {
	sandbox, ok := c.cfg.Sandboxes[ref.Name]
	switch {
	case !ref.Enabled:
	case ref.Name == "" || ok && sandbox.Enabled:
		if !c.cfg.Sandbox.Enabled {
			c.report(at, "[sandbox] is not enabled", "write enabled = true under [sandbox], or sandbox = false here")
		}
	case !ok && len(c.cfg.Sandboxes) == 0:
		c.report(at, fmt.Sprintf("no sandbox %q", ref.Name), fmt.Sprintf("add [sandboxes.%s], or write true for [sandbox] itself", ref.Name))
	case !ok:
		c.report(at, fmt.Sprintf("no sandbox %q", ref.Name), didYouMean(ref.Name, sorted(c.cfg.Sandboxes)))
	case !sandbox.Enabled:
		c.report(at, fmt.Sprintf("sandbox %q is not enabled", ref.Name), fmt.Sprintf("remove enabled = false from [sandboxes.%s]", ref.Name))
	}
}

func (c *checker) sandboxes() {
	c.sandbox(keyPath{"sandbox"}, c.cfg.Sandbox)
	for _, name := range sorted(c.cfg.Sandboxes) {
		c.sandbox(keyPath{"sandboxes", name}, c.cfg.withoutInherited(name))
	}
}

// withoutInherited is a named sandbox whose inherited keys are replaced by valid ones, so that an error in [sandbox] is reported
// once.
func (c *Config) withoutInherited(name string) Sandbox {
	s, base, good := c.Sandboxes[name], c.Sandbox, defaultsOf[Sandbox]()
	if s.WorkspaceDir == base.WorkspaceDir && reflect.DeepEqual(s.Mounts, base.Mounts) && reflect.DeepEqual(s.Volumes, base.Volumes) &&
		reflect.DeepEqual(s.Tmpfs, base.Tmpfs) {
		s.Mounts, s.Volumes, s.Tmpfs = nil, nil, nil
	}
	if slices.Equal(s.StartCommand, base.StartCommand) {
		s.StartCommand = nil
	}
	if s.Compose == base.Compose && s.Service == base.Service {
		s.Compose, s.Service = "", ""
	}
	if s.WorkspaceDir == base.WorkspaceDir {
		s.WorkspaceDir = good.WorkspaceDir
	}
	if s.Engine == base.Engine {
		s.Engine, s.EngineCA, s.EngineCert, s.EngineKey = good.Engine, "", "", ""
	}
	s.PauseAfter, s.Lease = good.PauseAfter, good.Lease // of [sandbox] alone
	return s
}

func (c *checker) sandbox(at keyPath, s Sandbox) {
	c.image(at, s)
	if err := mounts.CheckWorkspace(s.WorkspaceDir); err != nil {
		problem, hint, _ := strings.Cut(err.Error(), ": ")
		c.report(at.child("workspace_dir"), problem, hint)
	}
	if s.Network == "allowlist" && len(s.Allowlist) == 0 {
		c.report(at.child("network"), "allowlist is empty", `name what may be reached, such as allowlist = ["registry.npmjs.org:443"]`)
	}
	c.engine(at, s)
	c.span(at.child("pause_after"), s.PauseAfter)
	c.span(at.child("lease"), s.Lease)
	c.mounts(at, s)
	c.credentials(at, s)
	c.bridges(at, s)
	c.startCommand(at.child("start_command"), s.StartCommand)
	c.composed(at, s)
	if len(at) == 2 && !c.lines.has(at.child("allowlist")) {
		return // inherited, and reported where it stands
	}
	for i, target := range s.Allowlist {
		c.target(at.child("allowlist").index(i), target)
	}
}

// target checks an entry of an allowlist.
func (c *checker) target(at keyPath, target string) {
	if _, err := netaddr.ParseRule(target); err != nil {
		c.report(at, err.Error(), `write a host, such as "registry.npmjs.org:443", "*.debian.org:80" or "GET,HEAD example.com"`)
	}
}
