package docker

import (
	"context"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// Weakness weakens a container's confinement for a negative control, by which the self-test shows that its probes can fail. No
// configuration sets it: only package selftest does.
type Weakness struct {
	Powerful      bool   // all relevant capabilities, no seccomp, nothing masked, one device too many
	NewPrivileges bool   // set-user-ID programs work
	Capabilities  string // additional ones, separated by spaces
	WritableRoot  bool
	NoMemoryLimit bool // nor of swap
	NoCPULimit    bool
	NoPidsLimit   bool
	LooseUlimits  bool
	LargeTmp      bool // 1 GiB for /tmp and /dev/shm
	LooseIPC      bool // System V objects without the limits of other containers
	HostUsers     bool // the host's user namespace
	HostNetwork   bool
	HostPids      bool
	HostIPC       bool
	HostNames     bool   // the host's UTS namespace
	Env           string // NAME=value
	HostName      string // an entry of /etc/hosts, "name:address"
	Mount         driver.Mount
	// Trusting concerns the driver and not a container: calls have no deadline, and errors of the engine are passed on unchanged.
	Trusting bool
}

// Weakened returns a driver for the same engine whose containers have the weakness. The two share their connection; close the original.
func (d *Driver) Weakened(w Weakness) *Driver {
	weak := *d
	weak.weakness = w
	return &weak
}

// within applies a call's deadline.
func (d *Driver) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if d.weakness.Trusting {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// powers are named one by one, because an engine inside a container may not have all capabilities.
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
	if w.HostUsers {
		host.UsernsMode = "host"
	}
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
