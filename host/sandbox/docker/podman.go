package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/moby/profiles/seccomp"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// Podman answers requests of Docker's API. What it does otherwise is in this file:
//
//   - Its own filter of system calls lets programs make user namespaces and keys, so its containers get Docker's filter. Podman reads that from
//     a file, so it has to run on this machine.
//   - It says in its own words that a container which it should remove has just ended; see endedMeanwhile.

// podman is what a Driver knows of an engine that may be Podman.
type podman struct {
	folder string // for the filter; "" for one that Close removes

	mu      sync.Mutex // guards the rest
	own     string     // the folder to remove
	asked   bool
	is      bool
	version string
	filter  string // its file, once written
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
	p.asked = true
	return p.is, nil
}

// adapt changes the settings of a container for Podman.
func (d *Driver) adapt(ctx context.Context, host *container.HostConfig) error {
	is, err := d.isPodman(ctx)
	if err != nil || !is || !d.Binds() {
		return err
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
	text, err := json.Marshal(seccomp.DefaultProfile())
	if err != nil {
		return "", err
	}
	folder := p.folder
	if folder == "" {
		p.own, err = os.MkdirTemp("", "flynn-engine")
		folder = p.own
	} else {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(folder, "seccomp-*.json") // another process may write its own at the same time
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	file := filepath.Join(folder, "seccomp.json")
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	p.filter = file
	return file, nil
}

func (p *podman) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == "" {
		return nil
	}
	return os.RemoveAll(p.own)
}
