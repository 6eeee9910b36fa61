package docker

import (
	"runtime"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/mount"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// The confinement of every container, whatever it is for.
func TestConfinementOfEveryRole(t *testing.T) {
	for role, added := range map[driver.Role][]string{
		driver.Supervised: {"SETUID", "SETGID", "KILL"},
		driver.Preparer:   {"CHOWN"},
		driver.Service:    {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL", "NET_BIND_SERVICE"},
	} {
		_, host := confine(driver.Container{Role: role, Network: "none", MemoryBytes: 1 << 20, CPUs: 0.5, PidsLimit: 3})
		if !slices.Equal(host.CapDrop, []string{"ALL"}) || !slices.Equal(host.CapAdd, added) {
			t.Errorf("%q: capabilities -%v +%v", role, host.CapDrop, host.CapAdd)
		}
		if !slices.Equal(host.SecurityOpt, []string{"no-new-privileges"}) || host.Privileged || len(host.Devices) > 0 || len(host.Binds) > 0 {
			t.Errorf("%q: %+v", role, host)
		}
		if host.PidMode != "" || host.UTSMode != "" || host.UsernsMode != "" || host.IpcMode != "private" || host.RestartPolicy.Name != "no" {
			t.Errorf("%q: namespaces %q %q %q %q", role, host.PidMode, host.UTSMode, host.UsernsMode, host.IpcMode)
		}
		if kept := host.Sysctls["kernel.shm_rmid_forced"] != "1"; kept != (role == driver.Service) {
			t.Errorf("%q: kernel settings %v", role, host.Sysctls)
		}
		if host.Memory != 1<<20 || host.MemorySwap != 1<<20 || host.NanoCPUs != 5e8 || host.PidsLimit == nil || *host.PidsLimit < 3 {
			t.Errorf("%q: limits %+v", role, host.Resources)
		}
	}
}

func TestServiceKeepsItsImagesWords(t *testing.T) {
	for name, c := range map[string]struct {
		program         driver.Program
		entrypoint, cmd []string
	}{
		"the image's":   {},
		"a command":     {program: driver.Program{Cmd: []string{"a"}}, cmd: []string{"a"}},
		"an entrypoint": {program: driver.Program{Entrypoint: []string{"a"}}, entrypoint: []string{"a"}},
		"none":          {program: driver.Program{Entrypoint: []string{}}, entrypoint: []string{""}},
	} {
		c.program.NetworkOf = "beside"
		config, host := confine(driver.Container{Role: driver.Service, Program: &c.program})
		if !slices.Equal(config.Entrypoint, c.entrypoint) || !slices.Equal(config.Cmd, c.cmd) || config.OpenStdin || host.AutoRemove {
			t.Errorf("%s: %q %q", name, config.Entrypoint, config.Cmd)
		}
		if host.NetworkMode != "container:beside" || config.Hostname != "" || host.ExtraHosts != nil || config.User != "" {
			t.Errorf("%s: network %s", name, host.NetworkMode)
		}
	}
}

func TestMountsOfEveryKind(t *testing.T) {
	made := mounts([]driver.Mount{
		{Source: "/a", Target: "/b", ReadOnly: true, Alone: true},
		{Kind: driver.Volume, Source: "v", Target: "/v"}, {Kind: driver.Volume, Source: "w", Target: "/w", Fill: true},
		{Kind: driver.Memory, Target: "/m", Bytes: 7},
	})
	if b := made[0]; b.Type != mount.TypeBind || !b.ReadOnly || !b.BindOptions.NonRecursive || b.BindOptions.Propagation != mount.PropagationRPrivate {
		t.Errorf("bind: %+v, %+v", b, b.BindOptions)
	}
	if v, w := made[1], made[2]; v.Type != mount.TypeVolume || !v.VolumeOptions.NoCopy || w.VolumeOptions.NoCopy {
		t.Errorf("volumes: %+v, %+v", v, w)
	}
	if m := made[3]; m.Type != mount.TypeTmpfs || m.TmpfsOptions.SizeBytes != 7 || m.Source != "" {
		t.Errorf("memory: %+v", m)
	}
}

func TestFeatures(t *testing.T) {
	const filter, users = driver.Seccomp, driver.UserNamespaces
	here, there := &Driver{engine: engine.Address{Scheme: "unix"}, podman: &podman{}}, &Driver{engine: engine.Address{Scheme: "tcp"}, podman: &podman{}}
	own := &Driver{engine: here.engine, podman: &podman{own: true}}
	for _, c := range []struct {
		name    string
		driver  *Driver
		options []string
		podman  bool
		want    []driver.Feature
	}{
		{"as usual", here, []string{"name=apparmor", "name=seccomp,profile=builtin"}, false, []driver.Feature{filter, driver.Snapshots}},
		{"elsewhere", there, []string{"name=seccomp,profile=builtin"}, false, []driver.Feature{filter}},
		{"without a filter", there, []string{"name=seccomp,profile=unconfined", "name=usernsx"}, false, nil},
		{"nothing", there, nil, false, nil},
		{"remapped", there, []string{"name=seccomp,profile=default", "name=userns"}, false, []driver.Feature{filter, users}},
		{"without root", there, []string{"name=rootless"}, false, []driver.Feature{users}},
		{"Podman without root", own, []string{"name=seccomp,profile=default"}, true, []driver.Feature{filter, users, driver.Snapshots}},
		{"Podman elsewhere, with its own filter", there, []string{"name=seccomp,profile=default"}, true, nil},
	} {
		if runtime.GOOS != "linux" && c.podman {
			continue // it is always elsewhere
		}
		if got := c.driver.features(c.options, c.podman); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
