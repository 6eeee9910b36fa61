package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// Podman answers requests of Docker's API. The differences are in this file:
//
//   - Its own filter of system calls lets programs make user namespaces and keys, so its containers get Docker's filter. Podman reads that from
//     a file, so it has to run on this machine.
//   - Without root, the user who runs it is root of its containers, unless they keep his id; the workspace is his.
//   - Without root and with control groups of version 1, it leaves limits out.

// podman is what a Driver knows of an engine that may be Podman.
type podman struct {
	folder string // for the filter; "" for one that Close removes

	mu      sync.Mutex // guards the rest
	temp    string     // the folder to remove
	asked   bool
	is      bool
	version string
	own     bool          // it runs without root
	lacks   []driver.Lack // of limits
	filter  string        // its file, once written
}

// podmanFilter is the limit that a Podman on another machine does not hold.
const podmanFilter driver.Limit = "the system calls that Docker refuses"

// isPodman asks the engine, once.
func (d *Driver) isPodman(ctx context.Context) (bool, error) {
	p := d.podman
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return p.is, nil
	}
	v, err := d.api.ServerVersion(ctx)
	if err != nil {
		return false, d.explain("tell its version", err)
	}
	for _, c := range v.Components {
		if strings.HasPrefix(c.Name, "Podman") {
			p.is, p.version = true, c.Version
		}
	}
	if p.is {
		if err := d.learnPodman(ctx); err != nil {
			return false, err
		}
	}
	p.asked = true
	return p.is, nil
}

// learnPodman notes what a Podman does otherwise because it runs without root.
func (d *Driver) learnPodman(ctx context.Context) error {
	p := d.podman
	p.own, p.lacks = d.Binds() && ownerOf(d.engine.Path) != 0, nil // its answer in Docker's shape does not say so
	if p.own {
		info, err := d.api.Info(ctx)
		if err != nil {
			return d.explain("describe itself", err)
		}
		if info.CgroupVersion == "1" {
			const why = "Podman without root leaves it out, because this machine has control groups of version 1"
			p.lacks = []driver.Lack{{Limit: driver.MemoryLimit, Why: why}, {Limit: driver.CPULimit, Why: why}, {Limit: driver.PidsLimit, Why: why}}
		}
	}
	if !d.filters() {
		p.lacks = append(p.lacks, driver.Lack{Limit: podmanFilter, Why: "Podman reads its filter from a file, and runs on another machine"})
	}
	return nil
}

// filters reports whether Podman can be given a filter.
func (d *Driver) filters() bool { return d.Binds() && runtime.GOOS == "linux" }

// ownerOf returns the user who owns a file, or 0.
func ownerOf(path string) uint32 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return 0
}

// adapt changes the settings of a container for Podman.
func (d *Driver) adapt(ctx context.Context, host *container.HostConfig) error {
	is, err := d.isPodman(ctx)
	if err != nil || !is {
		return err
	}
	if d.podman.own {
		host.UsernsMode = "keep-id"
	}
	if !d.filters() {
		return nil
	}
	file, err := d.podman.write()
	if err != nil {
		return fmt.Errorf("give Podman a filter of system calls: %w", err)
	}
	host.SecurityOpt = append(host.SecurityOpt, "seccomp="+file)
	return nil
}

// write writes the filter, unless it is there.
func (p *podman) write() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filter != "" {
		if _, err := os.Stat(p.filter); err == nil {
			return p.filter, nil
		}
	}
	text, err := dockersFilter()
	if err != nil {
		return "", err
	}
	folder := p.folder
	if folder == "" {
		p.temp, err = os.MkdirTemp("", "flynn-engine")
		folder = p.temp
	} else {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return "", err
	}
	file := filepath.Join(folder, "seccomp.json")
	if err := durable.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	p.filter = file
	return file, nil
}

func (p *podman) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.temp == "" {
		return nil
	}
	return os.RemoveAll(p.temp)
}
