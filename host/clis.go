package host

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/cli"
)

const (
	// cliAuth and cliSettings are where the program of an agent finds its owner's login and, unless it looks elsewhere, configuration.
	cliAuth, cliSettings = "/auth", "/config"
	// cliWorkspace is the session's workspace where a folder of the host stands in the place that it has otherwise.
	cliWorkspace = "/session"
	// cliVolume is the volume of a session's program.
	cliVolume = "flynn-cli"
	// cliPrefix makes the names of the sandboxes of programs. No name in a configuration has a colon.
	cliPrefix = "cli:"
)

// cliSandbox is the name of the sandbox of an agent's program.
func cliSandbox(name string) string { return cliPrefix + name }

// cliPreset is what is known of an agent's program, with what the configuration says of the API in its place.
func cliPreset(c config.CLI) cli.Preset {
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

// cliHasFolder reports whether an agent's program works in a folder of the host.
func cliHasFolder(c config.CLI) bool { return c.Folder != "" || c.FolderByCall }

// cliBase is the sandbox that an agent's program has one like.
func cliBase(c *config.Config, a config.Agent) config.Sandbox {
	if s, ok := c.Sandboxes[a.Sandbox.Name]; ok && a.Sandbox.Name != "" {
		return s
	}
	return c.Sandbox
}

// cliSpec is the sandbox of an agent's program: the agent's own, with a volume for what the program remembers, and with no network but
// the program's API, which gets the key outside. A network that the sandbox has is not kept where there is a key: around the
// proxy no request would get it.
func cliSpec(c *config.Config, name string) sandbox.Spec {
	a := c.Agents[name]
	preset, s := cliPreset(a.CLI), bridgedSpec(c, cliBase(c, a))
	if a.CLI.Image != "" {
		s.Image, s.Packages, s.Binaries, s.Dockerfile, s.BuildContext = a.CLI.Image, nil, nil, "", ""
	}
	s.MemoryBytes, s.CPUs = int64(a.CLI.MemoryLimit), float64(a.CLI.CPULimit)
	s.Timeout = time.Duration(a.CLI.TimeoutSeconds) * time.Second
	s.Volumes = append(slices.Clip(s.Volumes), sandbox.VolumeMount{Name: cliVolume, Target: a.CLI.StateDir})
	s.Mounts = append(slices.Clip(s.Mounts), hostMounts(a.CLI.Mounts)...)
	if cliHasFolder(a.CLI) {
		s.WorkspaceDir = cliWorkspace
	}
	if a.CLI.Folder != "" {
		s.Mounts = append(s.Mounts, sandbox.HostMount{Source: a.CLI.Folder, Target: cliBase(c, a).WorkspaceDir, Writable: true})
	}
	if a.CLI.ConfigDir != "" {
		s.Mounts = append(s.Mounts, sandbox.HostMount{Source: a.CLI.ConfigDir, Target: cliSettingsOf(a.CLI, preset)})
	}
	if a.CLI.Auth == "mount" {
		s.Mounts = append(s.Mounts, sandbox.HostMount{Source: a.CLI.AuthDir, Target: cliAuth})
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

func cliNetwork(s *sandbox.Spec, c config.CLI, preset cli.Preset) {
	reach := slices.Clone(c.Allowlist)
	keyed := c.Auth == "proxy" && c.SecretName() != "" && preset.API.Host != ""
	switch {
	case keyed:
		reach = append(reach, preset.API.Host)
		s.Credentials = append(slices.Clip(s.Credentials), sandbox.Credential{
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

// cliAgents are the names of the agents of kind cli that run in a sandbox.
func cliAgents(c *config.Config) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Agents)), func(name string) bool {
		return c.Agents[name].Kind != agent.KindCLI || !c.Agents[name].Sandbox.Enabled
	})
}

// permitted asks once more, right before a program runs, whether its folder lies below a permitted root, links followed.
func (m *machines) permitted(sandboxName string) error {
	name, ours := strings.CutPrefix(sandboxName, cliPrefix)
	name, named, _ := strings.Cut(name, ":")
	m.mu.Lock()
	folder, rules := m.folders[name], m.folderRules
	m.mu.Unlock()
	for _, f := range []string{folder, named} {
		if !ours || f == "" {
			continue
		}
		if _, err := rules.Check(f); err != nil {
			return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
		}
	}
	return nil
}

// named is the specification of a sandbox by its name, which may end in the folder that a conversation is about; m.mu is held.
func (m *machines) named(name string) (sandbox.Spec, bool) {
	program, ours := strings.CutPrefix(name, cliPrefix)
	program, folder, _ := strings.Cut(program, ":")
	if !ours || folder == "" {
		s, known := m.specs[name]
		return s, known
	}
	s, known := m.specs[cliSandbox(program)]
	place, may := m.places[program]
	if !known || !may {
		return sandbox.Spec{}, false
	}
	s.Mounts = append(slices.Clip(s.Mounts), sandbox.HostMount{Source: folder, Target: place, Writable: true})
	return s, true
}

// cliFolders are the folders that agents' programs work in, by agent.
func cliFolders(c *config.Config) map[string]string {
	folders := map[string]string{}
	for _, name := range cliAgents(c) {
		if folder := c.Agents[name].CLI.Folder; folder != "" {
			folders[name] = folder
		}
	}
	return folders
}

// forgetTimeout bounds the removal of what a session has on the engine.
const forgetTimeout = time.Minute

// sweepCLIs removes the volumes of programs whose session is gone, as after a crash or a removal while the engine was away. Those of
// other hosts carry other labels and are not seen.
func (m *machines) sweepCLIs(ctx context.Context, manager *sandbox.Manager) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	known, err := m.homes(ctx)
	if err != nil {
		m.log.Warn("volumes of sessions that are gone are left, as the sessions could not be listed", "error", err)
		return
	}
	err = manager.RemoveVolumes(ctx, func(v sandbox.Owned) bool {
		session := v.Labels[sandbox.LabelSession]
		if v.Labels[sandbox.LabelVolume] != cliVolume || session == "" || known[session] {
			return false
		}
		m.log.Info("volume of a session that is gone is removed", "volume", v.Name, "session", session)
		return true
	})
	if err != nil {
		m.log.Warn("volumes of sessions that are gone", "error", err)
	}
}

// sessionHomes are what the sandboxes of all sessions in the store are called by.
func (h *Host) sessionHomes(ctx context.Context) (map[string]bool, error) {
	list, err := h.store.Sessions(ctx, math.MaxInt32)
	homes := make(map[string]bool, len(list))
	for _, s := range list {
		homes[store.SessionHome(s.Key)] = true
	}
	return homes, err
}

// configureCLIs takes over the folders of a generation's programs; m.mu is held.
func (m *machines) configureCLIs(c *config.Config) {
	m.folders, m.folderRules = cliFolders(c), c.CLIRules(os.Getenv)
	m.places = map[string]string{}
	for _, name := range cliAgents(c) {
		if a := c.Agents[name]; a.CLI.FolderByCall {
			m.places[name] = cliBase(c, a).WorkspaceDir
		}
	}
	m.mountRules.Roots = append(slices.Clip(m.mountRules.Roots), c.CLI.Roots...) // no other mount of the configuration lies there: it was checked
}
