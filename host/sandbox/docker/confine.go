package docker

import (
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

const (
	// tmpfs options; exec stays allowed because compilers and installers run what they put there.
	tmpOptions = "rw,exec,nosuid,nodev,mode=1777,size=64m"
	shmSize    = 64 << 20
	maxOpen    = 1024
	// ownTasks is the room for the supervisor's own threads on top of the workload's limit.
	ownTasks = 32
)

// runtimeEnv takes from the image's environment what would change how the supervisor's runtime works.
var runtimeEnv = []string{"GODEBUG=", "GOGC=", "GOMAXPROCS=", "GOMEMLIMIT=", "GOTRACEBACK="}

// confine is the security posture of every sandbox. Only what it takes from c is open to choice.
func confine(c driver.Container) (*container.Config, *container.HostConfig) {
	config, host := confineSupervisor(c)
	if c.Role == driver.Service {
		serve(c, config, host)
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
		// The stream: closing it ends the supervisor's input and with it the container, so
		// even a crashed host leaves nothing running.
		OpenStdin: true, StdinOnce: true,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	if c.Network == "host" {
		config.Hostname = ""
	}
	pids := c.PidsLimit + ownTasks
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
			MemorySwap: c.MemoryBytes, // the sum: no swap
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

// settings are of the kernel's, for the container's own namespaces. Objects of System V outlive the processes that have made
// them: shared memory, queues and semaphores that commands leave would fill the memory limit of all that come after.
// So memory that nobody has attached goes, and of the others there are few; see sysvipc(7). A service is a program of the
// person's own choice, which may need more.
func settings(r driver.Role) map[string]string {
	if r == driver.Service {
		return nil
	}
	return map[string]string{"kernel.shm_rmid_forced": "1", "kernel.msgmni": "32", "kernel.sem": "250 32000 32 128"}
}

// capabilities are all that a container of the role has.
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
