package fleet

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// plain is a driver without any optional ability.
type plain struct {
	driver.Driver
	binds bool
}

func (p plain) Binds() bool { return p.binds }

// keeper is one that has volumes and can fill them.
type keeper struct {
	plain
	driver.Volumes
}

func (keeper) Fill(context.Context, string, string, io.Reader) error { return nil }

func TestAbilitiesDecide(t *testing.T) {
	binds, none := plain{binds: true}, driver.Capabilities{Address: "driver:box", Networks: []string{"none"}}
	holding := driver.Capabilities{Address: "driver:box", Features: []driver.Feature{driver.Seccomp}}
	for _, c := range []struct {
		name   string
		engine driver.Driver
		has    driver.Capabilities
		wanted spec.Spec
		says   string // "": it can
	}{
		{"nothing special", binds, none, spec.Spec{}, ""},
		{"the proxy needs no network", binds, none, spec.Spec{Network: spec.Allowlist}, ""},
		{"bridge", binds, none, spec.Spec{Network: "bridge"}, `no network "bridge"`},
		{"an engine that names no networks", binds, driver.Capabilities{}, spec.Spec{Network: "bridge"}, ""},
		{"runtime", binds, none, spec.Spec{Runtime: "runsc"}, `no runtime "runsc"`},
		{"volumes", binds, none, spec.Spec{Volumes: []spec.VolumeMount{{}}}, "volumes"},
		{"compose", binds, none, spec.Spec{Compose: &compose.Project{}}, "compose"},
		{"packages", binds, none, spec.Spec{Packages: []string{"jq"}}, "packages"},
		{"dockerfile", binds, none, spec.Spec{Dockerfile: "/f"}, "dockerfile"},
		{"the image's own command", binds, none, spec.Spec{Start: []string{}}, "start_command"},
		{"mounts", keeper{}, none, spec.Spec{Mounts: []spec.HostMount{{}}}, "mounts"},
		{"mounts that can be", binds, none, spec.Spec{Mounts: []spec.HostMount{{}}}, ""},
		{"no folder and no volume", plain{}, none, spec.Spec{}, "workspaces"},
		{"volumes in place of folders", keeper{}, none, spec.Spec{Volumes: []spec.VolumeMount{{}}}, ""},
		{"a limit", binds, driver.Capabilities{Lacks: []driver.Lack{{Limit: driver.PidsLimit}}}, spec.Spec{}, "pids_limit"},
		{"a limit at best", binds, driver.Capabilities{Lacks: []driver.Lack{{Limit: driver.PidsLimit}}}, spec.Spec{BestEffort: true}, ""},
		{"a feature of no engine", binds, none, spec.Spec{Requires: []driver.Feature{driver.Snapshots, driver.UserNamespaces}}, "does not hold snapshots: "},
		{"the second of two features", binds, holding, spec.Spec{Requires: []driver.Feature{driver.Seccomp, driver.UserNamespaces}}, "does not hold user-namespaces: "},
		{"a feature that is there", binds, holding, spec.Spec{Requires: []driver.Feature{driver.Seccomp}}, ""},
		{"a feature at best", binds, none, spec.Spec{Prefers: []driver.Feature{driver.Seccomp}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Supports(c.engine, c.has, c.wanted)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrUnable) || !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
