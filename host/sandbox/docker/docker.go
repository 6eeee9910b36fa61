// Package docker drives sandboxes on a Docker engine. It is the only package that imports the engine's client.
//
// Start with New. API versions from 1.41 (engine 20.10) on are negotiated. The package decides how a container is confined (confine.go),
// and nothing about the programs inside.
//
// An engine in trouble must not hang its callers: every call has a deadline, and failures are machine.ErrUnavailable with a message that
// names the engine and the next step (trouble.go). Callers first ask for a sign of life, so most trouble shows within the first of these
// deadlines:
//
//	sign of life                  3 s   over ssh 5 s, because it may have to log in first
//	description, list, rename,
//	attach                       10 s
//	create, start                30 s
//	remove                       45 s   the engine itself waits 10 s for a killed container
//	pull                         15 min
//	copy                         10 min
//	commit                       10 min
//	build                        30 min, its caller's
//
// The last four are cancelled when the engine gives no sign of life for a minute (attend.go).
//
// While an engine is...
//
//	stopped    commands in its containers fail within 3 s, further ones at once; those work again once it is back
//	crashed    the same; its containers live on until it is back, and are replaced after they were removed
//	hung, slow commands go on where they have a control socket (local engines); what needs a container or its removal fails
//	           within 6 s, and what could not be removed is removed later
//	full       a container that cannot be made or started fails at once; existing ones go on
//	without its containerd, or the image: the same
//
// When another program removes, kills or restarts a container, its commands fail at once, and the next command gets a new container. In a
// paused container, commands run into their timeout, plus 8 s until the container is removed; starting a process fails after 15 s, a file
// request after 60 s.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// Deadlines of calls to the engine.
const (
	pingTimeout   = 3 * time.Second
	sshTimeout    = 5 * time.Second // the same over ssh, which may have to log in first
	createTimeout = 30 * time.Second
	startTimeout  = 30 * time.Second
	attachTimeout = 10 * time.Second
	listTimeout   = 10 * time.Second
	aboutTimeout  = 30 * time.Second // Podman runs other programs to describe itself
	removeTimeout = 45 * time.Second // the engine itself waits 10 s for a killed container
	pullTimeout   = 15 * time.Minute
	lookEvery     = 15 * time.Second // during long calls
	silentFor     = time.Minute
)

// Driver talks to one engine.
type Driver struct {
	api      *client.Client
	address  string
	engine   engine.Address
	dial     dialer
	weakness Weakness // used by negative controls only; otherwise zero
	podman   *podman

	attention attention
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Puller  = (*Driver)(nil)
	_ driver.Renamer = (*Driver)(nil)
)

// Config selects the engine.
type Config struct {
	// Engine is an address as package engine parses it; empty means DOCKER_HOST or engine.Default.
	Engine string
	// CA, Cert and Key are the paths of PEM files, for an engine reached over TLS: the trusted authority, and our own certificate. If they
	// are empty, they are ca.pem, cert.pem and key.pem in DOCKER_CERT_PATH, if that is set.
	CA, Cert, Key string
	// SSH are further arguments of the ssh client, placed before the fixed ones.
	SSH []string
	// Folder is where a file for an engine on this machine is written, if it needs one. By default it is a folder that Close removes.
	Folder string
}

// New returns a Driver. It does not touch the engine; Ping does.
func New(c Config) (*Driver, error) {
	address := cmp.Or(c.Engine, os.Getenv(client.EnvOverrideHost), engine.Default(os.Getenv("HOME")))
	e, err := engine.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("use engine: %w", err)
	}
	dial, err := c.dialer(e)
	if err != nil {
		return nil, fmt.Errorf("use engine %s: %w", address, err)
	}
	api, err := newClient(e, dial)
	if err != nil {
		return nil, fmt.Errorf("use engine %s: %w", address, err)
	}
	return &Driver{
		api: api, address: address, engine: e, dial: dial, podman: &podman{folder: c.Folder}, attention: attention{every: lookEvery, patience: silentFor},
	}, nil
}

// Dial opens a separate connection to the engine.
func (d *Driver) Dial(ctx context.Context) (net.Conn, error) { return d.dial(ctx) }

// Through returns a driver for the same engine that connects with dial. Close both.
func (d *Driver) Through(dial func(context.Context) (net.Conn, error)) (*Driver, error) {
	api, err := newClient(d.engine, dial)
	if err != nil {
		return nil, fmt.Errorf("use engine %s: %w", d.address, err)
	}
	other := *d
	other.api, other.dial = api, dial
	return &other, nil
}

// Close closes idle connections.
func (d *Driver) Close() error { return errors.Join(d.api.Close(), d.podman.close()) }

// Ping implements driver.Driver.
func (d *Driver) Ping(ctx context.Context) error {
	ctx, cancel := d.within(ctx, d.patience())
	defer cancel()
	answer, err := d.api.Ping(ctx)
	if err != nil {
		return d.explain("answer", err)
	}
	// Otherwise the client negotiates in its first call, which is not safe for concurrent calls.
	d.api.NegotiateAPIVersionPing(answer)
	return nil
}

// Binds implements driver.Driver. An engine behind a Unix socket is on this machine.
func (d *Driver) Binds() bool { return d.engine.Scheme == "unix" }

// Capabilities implements driver.Driver.
func (d *Driver) Capabilities(ctx context.Context) (driver.Capabilities, error) {
	c, _, err := d.describe(ctx)
	return c, err
}

// describe returns the capabilities, and what distinguishes the engine from others.
func (d *Driver) describe(ctx context.Context) (c driver.Capabilities, id string, err error) {
	ctx, cancel := d.within(ctx, aboutTimeout)
	defer cancel()
	info, err := d.api.Info(ctx)
	if err != nil {
		return c, "", d.explain("describe itself", err)
	}
	c = driver.Capabilities{
		Engine: "Docker " + info.ServerVersion, Address: d.address, DataRoot: info.DockerRootDir,
		Runtimes: slices.Sorted(maps.Keys(info.Runtimes)),
	}
	id = info.ID
	is, err := d.isPodman(ctx)
	if is {
		c.Engine, c.Lacks = "Podman "+d.podman.version, d.podman.lacks
		id = d.address // it tells another id each time
	}
	c.Features = d.features(info.SecurityOptions, is)
	return c, id, err
}

// features are what containers have, by the engine's options, such as "name=seccomp,profile=builtin".
func (d *Driver) features(options []string, podman bool) (all []driver.Feature) {
	is := func(name string) bool {
		return slices.ContainsFunc(options, func(o string) bool {
			return strings.HasPrefix(o+",", "name="+name+",") && !strings.Contains(o, "unconfined")
		})
	}
	if is("seccomp") && (!podman || d.filters()) { // Podman's own filter refuses less
		all = append(all, driver.Seccomp)
	}
	if is("userns") || is("rootless") || podman && d.podman.own {
		all = append(all, driver.UserNamespaces)
	}
	if d.Binds() {
		all = append(all, driver.Snapshots)
	}
	return all
}

// Create implements driver.Driver. The name contains the key, so the engine itself refuses a second container for it.
func (d *Driver) Create(ctx context.Context, c driver.Container) (string, error) {
	ctx, cancel := d.within(ctx, createTimeout)
	defer cancel()
	config, host := confine(c)
	if err := d.adapt(ctx, host); err != nil {
		return "", err
	}
	if err := driver.Without(d.podman.lacks, c.BestEffort); err != nil {
		return "", err
	}
	d.weakness.spoil(config, host)
	made, err := d.api.ContainerCreate(ctx, config, host, nil, nil, c.Name)
	switch {
	case err == nil && made.ID != "":
		return made.ID, nil
	case err == nil:
		err = errIncomplete
	case cerrdefs.IsNotFound(err):
		return "", fmt.Errorf("%w: %s on engine %s", driver.ErrNoImage, c.Image, d.address)
	case cerrdefs.IsConflict(err):
		return d.existing(ctx, c, err)
	}
	return "", d.explain("create container", err)
}

// existing returns the container that already has c's name, if an earlier attempt with c's key made it.
func (d *Driver) existing(ctx context.Context, c driver.Container, conflict error) (string, error) {
	found, err := d.inspect(ctx, c.Name)
	if err != nil {
		return "", d.explain("inspect container "+c.Name, err)
	}
	if c.Key == "" || found.Config.Labels[driver.LabelKey] != c.Key {
		return "", d.explain("create container", conflict)
	}
	return found.ID, nil
}

// Attach implements driver.Driver.
func (d *Driver) Attach(ctx context.Context, id string, stderr io.Writer) (driver.Stream, error) {
	h, err := d.attached(ctx, "attach to container", func(ctx context.Context) (types.HijackedResponse, error) {
		return d.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return nil, err
	}
	return &stream{Conn: h.Conn, src: h.Reader, stderr: stderr}, nil
}

// attached turns a request into a stream; the engine's answer has the deadline of any other answer.
func (d *Driver) attached(ctx context.Context, doing string, ask func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	ctx, cancel := d.within(ctx, attachTimeout)
	defer cancel()
	h, err := ask(handshake(ctx))
	if err != nil {
		return h, d.explain(doing, overdue(ctx, err))
	}
	if err := h.Conn.SetDeadline(time.Time{}); err != nil {
		return h, d.explain(doing, errors.Join(err, h.Conn.Close()))
	}
	return h, nil
}

// inspect looks a container up.
func (d *Driver) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	found, err := d.api.ContainerInspect(ctx, id)
	if err == nil && (found.ContainerJSONBase == nil || found.ID == "" || found.State == nil || found.Config == nil) {
		err = errIncomplete
	}
	return found, err
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, id string) error {
	ctx, cancel := d.within(ctx, startTimeout)
	defer cancel()
	return d.explain("start container", d.api.ContainerStart(ctx, id, container.StartOptions{}))
}

// Rename implements driver.Renamer.
func (d *Driver) Rename(ctx context.Context, id, name string) error {
	ctx, cancel := d.within(ctx, listTimeout)
	defer cancel()
	return d.explain("rename container", d.api.ContainerRename(ctx, id, name))
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, instance string) ([]driver.Owned, error) {
	ctx, cancel := d.within(ctx, listTimeout)
	defer cancel()
	found, err := d.api.ContainerList(ctx, container.ListOptions{
		All:     true,
		Filters: filters.NewArgs(filters.Arg("label", driver.LabelInstance+"="+instance)),
	})
	if err != nil {
		return nil, d.explain("list containers", err)
	}
	owned := make([]driver.Owned, 0, len(found))
	for _, c := range found {
		if len(c.Names) == 0 && c.State == "removing" {
			// It is gone. An engine that saves the state of a container while it removes it lists it, without its name, until it is restarted.
			continue
		}
		o := driver.Owned{ID: c.ID, Labels: c.Labels, State: string(c.State), Image: c.Image, Created: time.Unix(c.Created, 0)}
		if len(c.Names) > 0 {
			o.Name = c.Names[0]
		}
		owned = append(owned, o)
	}
	return owned, nil
}
