package specs_test

import (
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

func TestNamesOfSandboxes(t *testing.T) {
	own := config.Agent{Kind: "cli"}
	own.Sandbox.Enabled = true
	own.CLI = config.CLI{Preset: "claude", StateDir: "/state", FolderByCall: true}
	fixed := own
	fixed.CLI.FolderByCall, fixed.CLI.Folder, fixed.Sandbox.Name = false, "/nowhere/site", "small"
	off := own
	off.Sandbox.Enabled = false
	c := &config.Config{
		Sandbox:   config.Sandbox{Image: "large", WorkspaceDir: "/workspace"},
		Sandboxes: map[string]config.Sandbox{"small": {Image: "small", WorkspaceDir: "/w"}},
		Agents:    map[string]config.Agent{"claude": own, "fixed": fixed, "off": off, "chat": {Kind: "chat"}},
	}
	set := specs.New(c)
	if got := set.Names(); !slices.Equal(got, []string{"", "cli:claude", "cli:fixed", "small"}) {
		t.Errorf("names %q", got)
	}
	folder := func(target string) spec.HostMount {
		return spec.HostMount{Source: "/nowhere/site", Target: target, Writable: true}
	}
	for _, v := range []struct {
		name, image, workspace string
		known                  bool
		mounts                 []spec.HostMount
	}{
		{name: "", image: "large", workspace: "/workspace", known: true},
		{name: "small", image: "small", workspace: "/w", known: true},
		{name: "none"},
		{name: "cli:claude", image: "large", workspace: "/session", known: true},
		{name: "cli:claude:/nowhere/site", image: "large", workspace: "/session", known: true, mounts: []spec.HostMount{folder("/workspace")}},
		{name: "cli:fixed", image: "small", workspace: "/session", known: true, mounts: []spec.HostMount{folder("/w")}},
		{name: "cli:fixed:/nowhere/site"},
		{name: "cli:off"},
		{name: "cli:chat"},
	} {
		got, known := set.Named(v.name)
		if known != v.known || got.Image != v.image || got.WorkspaceDir != v.workspace || !slices.Equal(got.Mounts, v.mounts) {
			t.Errorf("%q: %v, image %q, workspace %q, mounts %+v", v.name, known, got.Image, got.WorkspaceDir, got.Mounts)
		}
	}
	for name, permitted := range map[string]bool{"": true, "small": true, "cli:claude": true, "cli:fixed": false, "cli:claude:/nowhere/site": false} {
		if err := set.Permit(name); (err == nil) != permitted {
			t.Errorf("%q is permitted: %v", name, err)
		}
	}
}
