package host

import (
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

func hostMounts(configured []config.Mount) (made []sandbox.HostMount) {
	for _, m := range configured {
		made = append(made, sandbox.HostMount{Source: m.Source, Target: m.Target, Writable: !m.ReadOnly})
	}
	return made
}

func volumes(configured []config.Volume) (made []sandbox.VolumeMount) {
	for _, v := range configured {
		made = append(made, sandbox.VolumeMount{Name: v.Name, Target: v.Target, Shared: v.Scope == "shared", ReadOnly: v.ReadOnly})
	}
	return made
}

func tmpfs(configured []config.Tmpfs) (made []sandbox.MemoryMount) {
	for _, t := range configured {
		made = append(made, sandbox.MemoryMount{Target: t.Target, Bytes: int64(t.Size)})
	}
	return made
}

func binaries(configured []config.Binary) (made []image.Binary) {
	for _, b := range configured {
		made = append(made, b.Recipe())
	}
	return made
}

// rules say which folders of the host sandboxes may see, in the generation in force.
func (m *machines) rules() mounts.Rules {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mountRules
}

// checkProjects finds what is wrong about a compose file in this very sandbox, such as a limit above the sandbox's own.
func checkProjects(c *config.Config) config.Errors {
	var errs config.Errors
	check := func(s config.Sandbox, key ...string) {
		if s.Project == nil {
			return
		}
		if err := spec(s).Check(); err != nil {
			errs = append(errs, config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: err.Error()})
		}
	}
	check(c.Sandbox, "sandbox", "compose")
	for _, name := range slices.Sorted(maps.Keys(c.Sandboxes)) {
		check(c.Sandboxes[name], "sandboxes", name, "compose")
	}
	return errs
}
