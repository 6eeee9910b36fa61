package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

// Dialed is the driver of an engine whose supervisors listen, at a Unix socket or on the loopback of this machine. Processes that use the
// same folder find each other's supervisors.
type Dialed struct {
	*docker.Driver
	Folder string // of the sockets and identities; its path must be short
	// TCP has the supervisors listen on the loopback. Their containers have the network of this machine.
	TCP bool
	// Through, if set, changes the endpoint that the host is told.
	Through func(driver.Endpoint) driver.Endpoint

	t testing.TB
}

var _ driver.Dialed = (*Dialed)(nil)

// listenFolder is the folder of a container's socket inside.
const listenFolder = "/.flynn-listen"

// Dialed returns such a driver of the engine.
func (h Host) Dialed(t testing.TB, tcp bool) *Dialed {
	t.Helper()
	folder, err := os.MkdirTemp("", "dialed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	d := h.DialedIn(t, folder)
	d.TCP = tcp
	return d
}

// DialedIn returns such a driver with the folder of another one.
func (h Host) DialedIn(t testing.TB, folder string) *Dialed {
	return &Dialed{Driver: h.Driver, Folder: folder, t: t}
}

// Adjust changes a configuration to this driver.
func (d *Dialed) Adjust(c *sandbox.Config) {
	d.t.Helper()
	c.Driver = d
	var err error
	if c.Supervisor, err = program.FindSupervisorFor(d, c.Log); err != nil {
		d.t.Fatal(err)
	}
}

// Create implements driver.Driver.
func (d *Dialed) Create(ctx context.Context, c driver.Container) (string, error) {
	if c.Identity == nil {
		return d.Driver.Create(ctx, c)
	}
	own := filepath.Join(d.Folder, c.Key[:16])
	identity := own + ".pem"
	err := errors.Join(os.MkdirAll(own, 0o700), os.WriteFile(identity, c.Identity, 0o400))
	at := "unix " + filepath.Join(own, "s")
	c.Mounts = append(c.Mounts[:len(c.Mounts):len(c.Mounts)], driver.Mount{Source: identity, Target: driver.IdentityPath, ReadOnly: true})
	if d.TCP {
		address := freeAddress(d.t)
		at, c.Network = "tcp "+address, "host"
		c.Entrypoint = append(c.Entrypoint[:len(c.Entrypoint):len(c.Entrypoint)], address)
	} else {
		c.Mounts = append(c.Mounts, driver.Mount{Source: own, Target: listenFolder})
		c.Entrypoint = append(c.Entrypoint[:len(c.Entrypoint):len(c.Entrypoint)], listenFolder+"/s")
	}
	id, made := d.Driver.Create(ctx, c)
	if err = errors.Join(err, made); err == nil {
		err = os.WriteFile(filepath.Join(d.Folder, id), []byte(at), 0o600)
	}
	return id, err
}

// Endpoint implements driver.Dialed.
func (d *Dialed) Endpoint(_ context.Context, id string) (driver.Endpoint, error) {
	text, err := os.ReadFile(filepath.Join(d.Folder, id))
	network, address, ok := strings.Cut(string(text), " ")
	if err != nil || !ok {
		return driver.Endpoint{}, fmt.Errorf("where container %s listens is not known: %w", id, err)
	}
	at := driver.Endpoint{Network: network, Address: address}
	if d.Through != nil {
		at = d.Through(at)
	}
	return at, nil
}
