package docker

import (
	"context"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// Weakness is what a negative control takes away from a container's confinement. It exists so that verification can
// show that its probes are able to fail. No configuration leads here: only package selftest makes one.
type Weakness struct {
	Powerful      bool   // the capabilities that matter, no seccomp, nothing masked, a device too many
	NewPrivileges bool   // set-user-id programs work
	Capabilities  string // further ones, separated by spaces
	WritableRoot  bool
	NoMemoryLimit bool // and swap without limit
	NoCPULimit    bool
	NoPidsLimit   bool
	LooseUlimits  bool
	LargeTmp      bool // 1 GiB for /tmp and /dev/shm
	LooseIPC      bool // objects of System V as many as the kernel's default has it, and kept
	HostNetwork   bool
	HostPids      bool
	HostIPC       bool
	HostNames     bool   // the host's UTS namespace
	Env           string // a variable with its value
	HostName      string // a name and address for /etc/hosts, "name:address"
	Mount         driver.Mount
	// Trusting is no container's: the driver waits for the engine as long as that takes, and passes its errors on as they are.
	Trusting bool
}

// Weakened returns a driver of the same engine whose containers have the weakness. The two share
// their connection; close the original.
func (d *Driver) Weakened(w Weakness) *Driver {
	weak := *d
	weak.weakness = w
	return &weak
}

// within is a call's deadline.
func (d *Driver) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if d.weakness.Trusting {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// powers are named one by one: an engine in a container of its own may not have all there are.
const powers = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID MKNOD NET_ADMIN NET_BIND_SERVICE NET_RAW SYSLOG SYS_ADMIN SYS_CHROOT SYS_MODULE SYS_PTRACE"

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
		host.Mounts = append(host.Mounts, mounts([]driver.Mount{w.Mount})...)
	}
}

func (w Weakness) spoilRights(host *container.HostConfig) {
	if w.Powerful {
		host.CapAdd = append(host.CapAdd, strings.Fields(powers)...)
		host.SecurityOpt = []string{"seccomp=unconfined", "apparmor=unconfined"}
		host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
		host.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kmsg", PathInContainer: "/dev/kmsg", CgroupPermissions: "r"}}
	}
	if w.NewPrivileges {
		host.SecurityOpt = nil
	}
	host.CapAdd = append(host.CapAdd, strings.Fields(w.Capabilities)...)
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
	if w.LooseUlimits {
		host.Ulimits = []*container.Ulimit{{Name: "nofile", Soft: 4 * maxOpen, Hard: 4 * maxOpen}, {Name: "core", Soft: -1, Hard: -1}}
	}
	if w.LooseIPC {
		host.Sysctls = nil
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
		host.IpcMode, host.Sysctls = "host", nil
	}
	if w.HostNames {
		host.UTSMode = "host"
		config.Hostname = ""
	}
}
