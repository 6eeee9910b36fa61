// Package specs converts a configuration to specifications of sandboxes.
//
// Start with New: a Set maps the names of sandboxes to their specifications,
//
//	""                [sandbox]
//	NAME              [sandboxes.NAME]
//	cli:AGENT         for the program of an agent of kind cli
//	cli:AGENT:FOLDER  the same, in a host folder that a conversation has chosen
//
// Code returns the specifications in which agents of kind code run programs, which have no names, and Pools the containers to keep ready.
// Check reports errors of a sandbox as a whole, which package config cannot find.
//
// The package starts nothing and contacts no engine.
package specs

import (
	"maps"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Set holds the specifications of one configuration. It is immutable.
type Set struct {
	byName  map[string]spec.Spec
	code    []spec.Spec
	folders map[string]string // host folders that the programs of agents work in, by agent
	named   map[string]string // mount point of a folder that a conversation has chosen, by agent
	roots   mounts.Rules      // for those folders
}

// New returns the specifications of a configuration.
func New(c *config.Config) *Set {
	s := &Set{byName: map[string]spec.Spec{"": bridged(c, c.Sandbox)}, folders: map[string]string{}, named: map[string]string{}, roots: c.CLIRules(os.Getenv)}
	for name, named := range c.Sandboxes {
		s.byName[name] = bridged(c, named)
	}
	for _, name := range CLIAgents(c) {
		a := c.Agents[name]
		s.byName[CLIName(name)] = CLI(c, name)
		s.folders[name] = a.CLI.Folder
		if a.CLI.FolderByCall {
			s.named[name] = CLIFolder(c, a)
		}
	}
	for _, p := range codePools(c) {
		s.code = append(s.code, p.Spec)
	}
	return s
}

// Named returns the specification of a sandbox.
func (s *Set) Named(name string) (spec.Spec, bool) {
	agent, folder, ok := parseCLI(name)
	if !ok || folder == "" {
		made, known := s.byName[name]
		return made, known
	}
	made, known := s.byName[CLIName(agent)]
	target, may := s.named[agent]
	if !known || !may {
		return spec.Spec{}, false
	}
	made.Mounts = append(slices.Clip(made.Mounts), spec.HostMount{Source: folder, Target: target, Writable: true})
	return made, true
}

// Names returns the names in a Set, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// All returns all specifications, including those for programs that agents of kind code write.
func (s *Set) All() []spec.Spec {
	all := slices.Clip(s.code)
	for _, name := range s.Names() {
		all = append(all, s.byName[name])
	}
	return all
}

// Permit returns why the host folder of a program may not be mounted now. The configuration was checked when it was read; a link that was
// created since is detected here.
func (s *Set) Permit(name string) error {
	agent, named, ok := parseCLI(name)
	if !ok {
		return nil
	}
	for _, folder := range []string{s.folders[agent], named} {
		if folder == "" {
			continue
		}
		if _, err := s.roots.Check(folder); err != nil {
			return err
		}
	}
	return nil
}

// MountRules returns the rules for host folders that the sandboxes of a configuration may mount.
func MountRules(c *config.Config) mounts.Rules {
	rules := c.MountRules(os.Getenv)
	rules.Roots = append(slices.Clip(rules.Roots), c.CLI.Roots...) // no other mount lies there: the configuration was checked
	return rules
}

// Pools returns the pools of ready containers of a configuration.
func Pools(c *config.Config) []sandbox.Pool {
	var pools []sandbox.Pool
	add := func(s config.Sandbox) {
		if s.Enabled && s.WarmPool > 0 {
			pools = append(pools, sandbox.Pool{Spec: bridged(c, s), Size: s.WarmPool})
		}
	}
	add(c.Sandbox)
	for _, name := range slices.Sorted(maps.Keys(c.Sandboxes)) {
		add(c.Sandboxes[name])
	}
	return append(pools, codePools(c)...)
}

// Check reports the errors of a compose file within its sandbox, such as a limit above the sandbox's own.
func Check(c *config.Config) config.Errors {
	var errs config.Errors
	check := func(s config.Sandbox, key ...string) {
		if s.Project == nil {
			return
		}
		if err := Of(s).Check(); err != nil {
			errs = append(errs, config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: err.Error()})
		}
	}
	check(c.Sandbox, "sandbox", "compose")
	for _, name := range slices.Sorted(maps.Keys(c.Sandboxes)) {
		check(c.Sandboxes[name], "sandboxes", name, "compose")
	}
	return errs
}

func features(names []string) []driver.Feature {
	return each(names, func(name string) driver.Feature { return driver.Feature(name) })
}

// Of returns the specification of a sandbox without its bridges, which refer to other sandboxes.
func Of(s config.Sandbox) spec.Spec {
	return spec.Spec{
		Image: s.Image, WorkspaceDir: s.WorkspaceDir, Network: s.Network, Allowlist: s.Allowlist, MemoryBytes: int64(s.MemoryLimit),
		CPUs: float64(s.CPULimit), PidsLimit: int64(s.PidsLimit), BestEffort: s.Limits == config.BestEffort, Timeout: seconds(s.TimeoutSeconds),
		Requires: features(s.Requires), Prefers: features(s.Prefers), Runtime: s.Runtime, DiskBytes: int64(s.DiskLimit), Mounts: hostMounts(s.Mounts), Start: s.StartCommand,
		Packages: s.Packages, Dockerfile: s.Dockerfile, BuildContext: s.BuildContext, BuildNetwork: s.BuildNetwork,
		Compose: s.Project, Service: s.Service, EgressLimit: int64(s.EgressLimit),
		Binaries: each(s.Binaries, func(b config.Binary) image.Binary { return b.Recipe() }),
		Volumes: each(s.Volumes, func(v config.Volume) spec.VolumeMount {
			return spec.VolumeMount{Name: v.Name, Target: v.Target, Shared: v.Scope == "shared", ReadOnly: v.ReadOnly}
		}),
		Tmpfs: each(s.Tmpfs, func(t config.Tmpfs) spec.MemoryMount {
			return spec.MemoryMount{Target: t.Target, Bytes: int64(t.Size)}
		}),
		Credentials: each(s.Credentials, func(c config.Credential) spec.Credential {
			return spec.Credential{
				Host: c.Host, Header: c.Header, Prefix: c.Prefix, Secret: c.SecretName(), Methods: c.Methods, Paths: c.Paths, Upgrade: c.Upgrade,
			}
		}),
	}
}

// bridged returns the specification of a sandbox with its bridges.
func bridged(c *config.Config, s config.Sandbox) spec.Spec {
	made := Of(s)
	made.Bridges = each(s.Bridges, func(b config.Bridge) spec.Bridge {
		bridge := spec.Bridge{
			Name: b.Name, OnHost: b.Host, Program: b.Program, Forms: b.Forms(), Env: b.Env, Workspace: b.Workspace,
			Timeout: time.Duration(b.Timeout), MaxOutput: int(b.MaxOutput), Stdin: b.Stdin,
		}
		if !b.Host {
			second := Of(c.Sandboxes[b.Sandbox])
			bridge.In = &second
		}
		for variable, ref := range b.SecretsEnv {
			if bridge.Secrets == nil {
				bridge.Secrets = make(map[string]string)
			}
			bridge.Secrets[variable] = ref.SecretName()
		}
		return bridge
	})
	return made
}

func hostMounts(configured []config.Mount) []spec.HostMount {
	return each(configured, func(m config.Mount) spec.HostMount {
		return spec.HostMount{Source: m.Source, Target: m.Target, Writable: !m.ReadOnly}
	})
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// each returns f of each element; nil for an empty list.
func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}
