package docker

import (
	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox"
)

// Weakness is what a negative control takes away from a container's confinement. It exists so that verification can
// show that its probes are able to fail. No configuration leads here: only package verify makes one.
type Weakness struct {
	Privileged    bool   // all capabilities, all devices, no seccomp, nothing masked
	NewPrivileges bool   // set-user-id programs work
	Capability    string // one that the first process has besides, such as SYS_ADMIN
	WritableRoot  bool
	NoMemoryLimit bool // and swap without limit
	NoCPULimit    bool
	NoPidsLimit   bool
	NoUlimits     bool
	LargeTmp      bool // 1 GiB for /tmp and /dev/shm
	HostNetwork   bool
	HostPids      bool
	HostIPC       bool
	HostNames     bool   // the host's UTS namespace
	Env           string // a variable with its value
	HostName      string // a name and address for /etc/hosts, "name:address"
	Mount         sandbox.Mount
}

// Weakened returns a driver of the same engine whose containers have the weakness. The two share
// their connection; close the original.
func (d *Driver) Weakened(w Weakness) *Driver {
	weak := *d
	weak.weakness = w
	return &weak
}

// largeTmp is more than any probe writes.
const largeTmp = 1 << 30

func (w Weakness) spoil(config *container.Config, host *container.HostConfig) {
	if w == (Weakness{}) {
		return
	}
	w.spoilRights(host)
	w.spoilLimits(host)
	w.spoilNamespaces(config, host)
	if w.Env != "" {
		config.Env = append(config.Env, w.Env)
	}
	if w.HostName != "" {
		host.ExtraHosts = append(host.ExtraHosts, w.HostName)
	}
	if w.Mount.Source != "" {
		host.Mounts = append(host.Mounts, binds([]sandbox.Mount{w.Mount})...)
	}
}

func (w Weakness) spoilRights(host *container.HostConfig) {
	if w.Privileged {
		host.Privileged = true
		host.CapDrop, host.CapAdd = nil, nil
		host.SecurityOpt = []string{"seccomp=unconfined"}
	}
	if w.NewPrivileges {
		host.SecurityOpt = nil
	}
	if w.Capability != "" {
		host.CapAdd = append(host.CapAdd, w.Capability)
	}
	if w.WritableRoot {
		host.ReadonlyRootfs = false
	}
}

func (w Weakness) spoilLimits(host *container.HostConfig) {
	if w.NoMemoryLimit {
		host.Memory, host.MemorySwap = 0, 0
	}
	if w.NoCPULimit {
		host.NanoCPUs = 0
	}
	if w.NoPidsLimit {
		host.PidsLimit = nil
	}
	if w.NoUlimits {
		host.Ulimits = nil
	}
	if w.LargeTmp {
		host.Tmpfs = map[string]string{"/tmp": "rw,exec,size=1g,mode=1777"}
		host.ShmSize = largeTmp
	}
}

func (w Weakness) spoilNamespaces(config *container.Config, host *container.HostConfig) {
	if w.HostNetwork {
		host.NetworkMode = "host"
		config.Hostname = ""
	}
	if w.HostPids {
		host.PidMode = "host"
	}
	if w.HostIPC {
		host.IpcMode = "host"
	}
	if w.HostNames {
		host.UTSMode = "host"
		config.Hostname = ""
	}
}
