package docker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Listening is a Driver for hosts that share an engine on another machine. Its supervisors listen at a Unix socket that only the supervisor's
// user can see. A host reaches it by a program that the engine runs beside the supervisor, so each host that may use the engine can do so, and
// the network of the container does not matter. Workspaces are disks of the containers.
type Listening struct {
	*Driver

	mu         sync.Mutex
	identities map[string][]byte // of containers that were not started yet
}

var (
	_ driver.Dialed = (*Listening)(nil)
	_ driver.Dialer = (*Listening)(nil)
)

// NewListening returns such a driver for the engine of d, which must be on another machine.
func NewListening(d *Driver) *Listening {
	return &Listening{Driver: d, identities: make(map[string][]byte)}
}

const (
	listenFolder  = "/.flynn-listen"
	listenAddress = listenFolder + "/s"
	// listenOptions are those of the folder's tmpfs. Commands never run as its owner.
	listenOptions = "rw,noexec,nosuid,nodev,mode=700,size=64k"
)

// Capabilities implements driver.Driver.
func (l *Listening) Capabilities(ctx context.Context) (driver.Capabilities, error) {
	c, id, err := l.describe(ctx)
	c.Shared = id
	return c, err
}

// Create implements driver.Driver.
func (l *Listening) Create(ctx context.Context, c driver.Container) (string, error) {
	if c.Identity == nil {
		return l.Driver.Create(ctx, c)
	}
	c.Entrypoint = append(c.Entrypoint[:len(c.Entrypoint):len(c.Entrypoint)], listenAddress, frame.IdentityFromInput)
	for _, m := range c.Mounts {
		if m.Kind == driver.Disk {
			c.Entrypoint = append(c.Entrypoint, m.Target)
		}
	}
	id, err := l.Driver.Create(ctx, c)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.identities[id] = c.Identity
	return id, nil
}

// take returns the identity of a container that is not started yet, once.
func (l *Listening) take(id string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	identity := l.identities[id]
	delete(l.identities, id)
	return identity
}

// Remove implements driver.Driver.
func (l *Listening) Remove(ctx context.Context, id string) error {
	l.take(id)
	return l.Driver.Remove(ctx, id)
}

// Start implements driver.Driver. It gives the supervisor its identity, and waits until that listens.
func (l *Listening) Start(ctx context.Context, id string) error {
	identity := l.take(id)
	if identity == nil {
		return l.Driver.Start(ctx, id)
	}
	var words lastWords
	stream, err := l.Attach(ctx, id, &words)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := l.Driver.Start(ctx, id); err != nil {
		return err
	}
	ctx, cancel := l.within(ctx, startTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	const doing = "start the supervisor"
	if _, err := stream.Write(append(bytes.Clone(identity), 0)); err != nil {
		return l.explain(doing, errors.Join(ctx.Err(), err))
	}
	if line, err := bufio.NewReader(io.LimitReader(stream, 64)).ReadString('\n'); line != frame.NowListening {
		return l.explain(doing, errors.Join(ctx.Err(), fmt.Errorf("it does not listen: %q: %w", words.String(), err)))
	}
	return nil
}

// Endpoint implements driver.Dialed: the socket inside, which DialSupervisor reaches.
func (l *Listening) Endpoint(context.Context, string) (driver.Endpoint, error) {
	return driver.Endpoint{Network: "unix", Address: listenAddress}, nil
}

// DialSupervisor implements driver.Dialer. The supervisor's own program connects to it.
func (l *Listening) DialSupervisor(ctx context.Context, id string) (net.Conn, error) {
	const doing = "connect to the supervisor"
	ask, cancel := l.within(ctx, attachTimeout)
	defer cancel()
	found, err := l.inspect(ask, id)
	if err == nil && len(found.Config.Entrypoint) == 0 {
		err = errIncomplete
	}
	if err != nil {
		return nil, l.explain(doing, err)
	}
	made, err := l.api.ContainerExecCreate(ask, id, container.ExecOptions{
		User: "0:0", WorkingDir: "/", Env: []string{"GOMAXPROCS=1"}, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{found.Config.Entrypoint[0], frame.RelayWord, listenAddress},
	})
	if err != nil {
		return nil, l.explain(doing, err)
	}
	h, err := l.attached(ctx, doing, func(ctx context.Context) (types.HijackedResponse, error) {
		return l.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	})
	if err != nil {
		return nil, err
	}
	return &stream{Conn: h.Conn, src: h.Reader, stderr: io.Discard}, nil
}
