package specs

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool/cli"
)

const (
	// CLIAuth is the folder in which an agent's program finds its owner's login.
	CLIAuth = "/auth"
	// CLIVolume is the volume in which a program stores what it remembers of a session.
	CLIVolume = "flynn-cli"

	cliSettings  = "/config"  // its owner's configuration, unless the program expects it elsewhere
	cliWorkspace = "/session" // the session's workspace, if a host folder is mounted in the usual place
	cliPrefix    = "cli:"     // names in a configuration contain no colon
)

// CLIName returns the name of the sandbox of an agent's program.
func CLIName(agent string) string { return cliPrefix + agent }

// parseCLI splits such a name.
func parseCLI(name string) (agent, folder string, ok bool) {
	rest, ok := strings.CutPrefix(name, cliPrefix)
	agent, folder, _ = strings.Cut(rest, ":")
	return agent, folder, ok
}

// CLIAgents returns the names of the agents of kind cli that run in a sandbox.
func CLIAgents(c *config.Config) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Agents)), func(name string) bool {
		return c.Agents[name].Kind != "cli" || !c.Agents[name].Sandbox.Enabled
	})
}

// CLIPreset returns the preset of an agent's program, with the API of the configuration if that has one.
func CLIPreset(c config.CLI) cli.Preset {
	p, _ := cli.PresetOf(c.Preset) // the configuration's schema has checked the name
	set := func(into *string, value string) {
		if value != "" {
			*into = value
		}
	}
	set(&p.API.Host, c.APIHost)
	set(&p.API.Header, c.APIHeader)
	set(&p.API.Prefix, c.APIPrefix)
	return p
}

// CLIFolder returns the path at which an agent's program finds the host folder that it works in, if any.
func CLIFolder(c *config.Config, a config.Agent) string { return cliBase(c, a).WorkspaceDir }

// CLIWorkspace returns the path at which an agent's program finds the session's workspace.
func CLIWorkspace(c *config.Config, a config.Agent) string {
	if cliHasFolder(a.CLI) {
		return cliWorkspace
	}
	return cliBase(c, a).WorkspaceDir
}

func cliHasFolder(c config.CLI) bool { return c.Folder != "" || c.FolderByCall }

// cliBase returns the sandbox from which that of an agent's program is derived.
func cliBase(c *config.Config, a config.Agent) config.Sandbox {
	if s, ok := c.Sandboxes[a.Sandbox.Name]; ok && a.Sandbox.Name != "" {
		return s
	}
	return c.Sandbox
}

// CLI returns the sandbox of an agent's program: the agent's own, with a volume for what the program remembers, and with access to the
// program's API only, to which the proxy outside adds the key. If there is a key, the sandbox's own network is removed, because a request
// that bypasses the proxy would not get the key.
func CLI(c *config.Config, agent string) spec.Spec {
	a := c.Agents[agent]
	preset, s := CLIPreset(a.CLI), bridged(c, cliBase(c, a))
	if a.CLI.Image != "" {
		s.Image, s.Packages, s.Binaries, s.Dockerfile, s.BuildContext = a.CLI.Image, nil, nil, "", ""
	}
	s.MemoryBytes, s.CPUs, s.Timeout = int64(a.CLI.MemoryLimit), float64(a.CLI.CPULimit), seconds(a.CLI.TimeoutSeconds)
	s.WorkspaceDir = CLIWorkspace(c, a)
	s.Volumes = append(s.Volumes, spec.VolumeMount{Name: CLIVolume, Target: a.CLI.StateDir})
	s.Mounts = append(s.Mounts, hostMounts(a.CLI.Mounts)...)
	if a.CLI.Folder != "" {
		s.Mounts = append(s.Mounts, spec.HostMount{Source: a.CLI.Folder, Target: CLIFolder(c, a), Writable: true})
	}
	if a.CLI.ConfigDir != "" {
		s.Mounts = append(s.Mounts, spec.HostMount{Source: a.CLI.ConfigDir, Target: cliSettingsOf(a.CLI, preset)})
	}
	if a.CLI.Auth == "mount" {
		s.Mounts = append(s.Mounts, spec.HostMount{Source: a.CLI.AuthDir, Target: CLIAuth})
	}
	cliNetwork(&s, a.CLI, preset)
	return s
}

// cliSettingsOf returns the path at which a program finds its owner's configuration.
func cliSettingsOf(c config.CLI, preset cli.Preset) string {
	switch {
	case c.ConfigTarget != "":
		return c.ConfigTarget
	case preset.ConfigDir != "":
		return path.Join(c.StateDir, preset.ConfigDir)
	}
	return cliSettings
}

func cliNetwork(s *spec.Spec, c config.CLI, preset cli.Preset) {
	reach := slices.Clone(c.Allowlist)
	keyed := c.Auth == "proxy" && c.SecretName() != "" && preset.API.Host != ""
	switch {
	case keyed:
		reach = append(reach, preset.API.Host)
		s.Credentials = append(s.Credentials, spec.Credential{
			Host: preset.API.Host, Header: preset.API.Header, Prefix: preset.API.Prefix, Secret: c.SecretName(), Upgrade: true,
			Address: c.APIAddress,
		})
	case c.Auth == "mount" && preset.API.Host != "":
		reach = append(append(reach, preset.API.Host), preset.LoginHosts...)
	}
	if len(reach) == 0 || !keyed && s.Network != "none" && s.Network != "allowlist" {
		return
	}
	if s.Network != "allowlist" {
		s.Network, s.Allowlist = "allowlist", nil
	}
	s.Allowlist = append(slices.Clip(s.Allowlist), reach...)
}
