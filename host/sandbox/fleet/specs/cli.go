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
	// CLIAuth is where the program of an agent finds its owner's login.
	CLIAuth = "/auth"
	// CLIVolume is the volume in which a program keeps what it remembers of a session.
	CLIVolume = "flynn-cli"

	cliSettings  = "/config"  // where it finds its owner's configuration, unless it looks elsewhere
	cliWorkspace = "/session" // the session's workspace where a folder of the host is mounted in the usual place
	cliPrefix    = "cli:"     // no name in a configuration has a colon
)

// CLIName is the name of the sandbox of an agent's program.
func CLIName(agent string) string { return cliPrefix + agent }

// parseCLI takes such a name apart.
func parseCLI(name string) (agent, folder string, ok bool) {
	rest, ok := strings.CutPrefix(name, cliPrefix)
	agent, folder, _ = strings.Cut(rest, ":")
	return agent, folder, ok
}

// CLIAgents are the names of the agents of kind cli that run in a sandbox.
func CLIAgents(c *config.Config) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Agents)), func(name string) bool {
		return c.Agents[name].Kind != "cli" || !c.Agents[name].Sandbox.Enabled
	})
}

// CLIPreset is what is known of an agent's program. What the configuration says of its API replaces what the preset says.
func CLIPreset(c config.CLI) cli.Preset {
	p, _ := cli.PresetOf(c.Preset) // the schema knows the names
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

// CLIFolder is where an agent's program finds the folder of the host that it works in, if it has one.
func CLIFolder(c *config.Config, a config.Agent) string { return cliBase(c, a).WorkspaceDir }

// CLIWorkspace is where an agent's program finds the session's workspace.
func CLIWorkspace(c *config.Config, a config.Agent) string {
	if cliHasFolder(a.CLI) {
		return cliWorkspace
	}
	return cliBase(c, a).WorkspaceDir
}

func cliHasFolder(c config.CLI) bool { return c.Folder != "" || c.FolderByCall }

// cliBase is the sandbox that the one of an agent's program is derived from.
func cliBase(c *config.Config, a config.Agent) config.Sandbox {
	if s, ok := c.Sandboxes[a.Sandbox.Name]; ok && a.Sandbox.Name != "" {
		return s
	}
	return c.Sandbox
}

// CLI is the sandbox of an agent's program: the agent's own, with a volume for what the program remembers, and with no network but
// the program's API. The proxy outside adds the key. A network of the sandbox's own is dropped where there is a key: a request that goes
// around the proxy would not get it.
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

// cliSettingsOf is where a program finds what its owner has configured.
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
