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
	// Apart has it do without folders of this machine: containers get copies and disks.
	Apart bool
	// Through, if set, changes the endpoint that the host is told.
	Through func(driver.Endpoint) driver.Endpoint

	t testing.TB
}

var (
	_ driver.Dialed = (*Dialed)(nil)
	_ driver.Copier = (*Dialed)(nil)
)

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

// Binds implements driver.Driver.
func (d *Dialed) Binds() bool { return !d.Apart }

// Copies implements driver.Copier.
func (d *Dialed) Copies() bool { return d.Apart }

// Create implements driver.Driver.
func (d *Dialed) Create(ctx context.Context, c driver.Container) (string, error) {
	if c.Identity == nil {
		return d.Driver.Create(ctx, c)
	}
	own := filepath.Join(d.Folder, c.Key[:16])
	identity := own + ".pem"
	err := errors.Join(os.MkdirAll(own, 0o700), os.WriteFile(identity, c.Identity, 0o400))
	if d.Apart {
		var failed error
		c.Mounts, failed = apart(own, c.Mounts)
		err = errors.Join(err, failed)
	}
	c.Identity = nil // it has it; see docker.Listening
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

// apart makes folders of copies and disks. A mount of a folder of this machine is an error.
func apart(own string, mounts []driver.Mount) ([]driver.Mount, error) {
	var out []driver.Mount
	for i, m := range mounts {
		at := fmt.Sprintf("%s-%d", own, i)
		var err error
		switch m.Kind {
		case driver.Bind:
			err = fmt.Errorf("the container mounts %s of this machine", m.Source)
		case driver.Disk:
			if err = os.Mkdir(at, 0o700); err == nil {
				err = os.Chmod(at, 0o777)
			}
			m.Kind, m.Source = driver.Bind, at
		case driver.Copy:
			err = copyOf(m.Source, at)
			m.Kind, m.Source, m.ReadOnly = driver.Bind, at, true
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func copyOf(source, at string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(at, os.DirFS(source))
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return os.WriteFile(at, text, 0o555)
}
