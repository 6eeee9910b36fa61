package docker

import (
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

const (
	// tmpfs options; exec stays allowed because compilers and installers run files there.
	tmpOptions = "rw,exec,nosuid,nodev,mode=1777,size=64m"
	shmSize    = 64 << 20
	maxOpen    = 1024
)

// runtimeEnv clears variables of the image that would change the supervisor's Go runtime.
var runtimeEnv = []string{"GODEBUG=", "GOGC=", "GOMAXPROCS=", "GOMEMLIMIT=", "GOTRACEBACK="}

// confine returns the security settings of every sandbox. Only the values taken from c can be configured.
func confine(c driver.Container) (*container.Config, *container.HostConfig) {
	config, host := confineSupervisor(c)
	if c.Role == driver.Service {
		serve(c, config, host)
	}
	if c.Identity != nil {
		host.Tmpfs[listenFolder] = listenOptions
	}
	return config, host
}

func confineSupervisor(c driver.Container) (*container.Config, *container.HostConfig) {
	config := &container.Config{
		Image:      c.Image,
		Hostname:   "sandbox",
		User:       "0:0", // the supervisor; commands run as the workload's user
		Entrypoint: c.Entrypoint,
		Cmd:        []string{},
		WorkingDir: "/",
		Labels:     c.Labels,
		Env:        runtimeEnv,
		// The stream: closing it ends the supervisor's input and with it the container, so that even a crashed host leaves nothing running.
		OpenStdin: true, StdinOnce: true,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	if c.Network == "host" {
		config.Hostname = ""
	}
	pids := c.PidsLimit + driver.OwnTasks
	host := &container.HostConfig{
		AutoRemove:     true,
		Runtime:        c.Runtime,
		NetworkMode:    container.NetworkMode(c.Network),
		ExtraHosts:     c.Hosts,
		IpcMode:        "private",
		Sysctls:        settings(c.Role),
		CapDrop:        []string{"ALL"},
		CapAdd:         capabilities(c.Role),
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		Tmpfs:          map[string]string{"/tmp": tmpOptions},
		ShmSize:        shmSize,
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: "no"},
		Mounts:         mounts(c.Mounts),
		Resources: container.Resources{
			Memory:     c.MemoryBytes,
			MemorySwap: c.MemoryBytes, // equal to Memory: no swap
			NanoCPUs:   int64(c.CPUs * 1e9),
			PidsLimit:  &pids,
			Ulimits: []*container.Ulimit{
				{Name: "nofile", Soft: maxOpen, Hard: maxOpen},
				{Name: "core"},
			},
		},
	}
	return config, host
}

// settings returns the kernel parameters for the container's own namespaces. System V objects outlive the processes that made them, so
// shared memory, queues and semaphores that commands leave would fill the memory limit of all later commands. Shared memory that nobody has
// attached is therefore destroyed, and the number of the others is small; see sysvipc(7). A service is the user's own choice of program and
// may need more.
func settings(r driver.Role) map[string]string {
	if r == driver.Service {
		return nil
	}
	return map[string]string{"kernel.shm_rmid_forced": "1", "kernel.msgmni": "32", "kernel.sem": "250 32000 32 128"}
}

// capabilities returns all capabilities that a container of the role has.
func capabilities(r driver.Role) []string {
	switch r {
	case driver.Preparer:
		return []string{"CHOWN"}
	case driver.Service:
		return []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL", "NET_BIND_SERVICE"}
	}
	return []string{"SETUID", "SETGID", "KILL"}
}

func mounts(wanted []driver.Mount) []mount.Mount {
	var out []mount.Mount
	for _, w := range wanted {
		m := mount.Mount{Type: mount.TypeBind, Source: w.Source, Target: w.Target, ReadOnly: w.ReadOnly}
		switch w.Kind {
		case driver.Volume:
			m.Type = mount.TypeVolume
			m.VolumeOptions = &mount.VolumeOptions{NoCopy: !w.Fill}
		case driver.Disk: // a volume without a name goes with its container
			m.Type = mount.TypeVolume
			m.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
		case driver.Memory:
			m.Type = mount.TypeTmpfs
			m.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: w.Bytes, Mode: 0o1777}
		default:
			m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: w.Alone}
		}
		out = append(out, m)
	}
	return out
}
