// Package driver says what a sandbox needs of an engine: Driver, and the smaller interfaces of what not every engine can do.
//
// Package docker implements it; packages launch, container and reconcile use it. It knows no sessions and no specifications.
package driver

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Driver makes containers somewhere. Its methods are safe for concurrent use and put a deadline of
// their own on everything they wait for. Paths appear only in a Container's mounts.
type Driver interface {
	// Ping reports whether containers can be made. Its error wraps machine.ErrUnavailable and
	// names the address that was tried.
	Ping(ctx context.Context) error
	// Capabilities says what differs between drivers.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Binds reports whether containers can mount folders of this machine. It does not ask the engine, which takes seconds to describe
	// itself when it is busy.
	Binds() bool
	// Create makes a container that does not run yet and returns its id. A second call with
	// the same Key returns the first one's. ErrNoImage means that Pull might help.
	Create(ctx context.Context, c Container) (id string, err error)
	// Attach opens the byte stream to the first process; call it before Start, or output is
	// lost. What the process writes to stderr goes to stderr.
	Attach(ctx context.Context, id string, stderr io.Writer) (Stream, error)
	Start(ctx context.Context, id string) error
	// Remove ends and removes a container, by id or name, and returns once it is gone. One that
	// does not exist is no error.
	Remove(ctx context.Context, id string) error
	// List returns the containers that carry the owner label of instance.
	List(ctx context.Context, instance string) ([]Owned, error)
}

// Puller is a Driver that can fetch images.
type Puller interface {
	// Pull fetches an image, telling progress one line at a time.
	Pull(ctx context.Context, image string, progress func(line string)) error
}

// Renamer is a Driver that can rename a container, for the eyes of people only.
type Renamer interface {
	Rename(ctx context.Context, id, name string) error
}

// Inspector is a Driver that can tell how an image is meant to be started. ErrNoImage is an answer, too.
type Inspector interface {
	InspectImage(ctx context.Context, ref string) (image.Info, error)
}

// ErrNoImage means that the engine does not have the image.
var ErrNoImage = image.ErrNoImage

// Stream is the connection to a container's first process. Close ends the process's input.
type Stream interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// Capabilities describe a driver and its engine.
type Capabilities struct {
	Engine   string // product and version, for people
	Address  string
	Runtimes []string // sorted
	// DataRoot is where the engine keeps its images and volumes, as it sees its own machine.
	DataRoot string
}

// Container is what a Driver makes. Every container of a role is confined the same way, which is the driver's
// duty and not for the caller to choose: no capabilities but those to become a user
// and signal it, no new privileges, read-only root, a small /tmp, no log.
type Container struct {
	Key         string // idempotency key, unique to this attempt
	Name        string
	Image       string
	Entrypoint  []string
	Labels      map[string]string
	Mounts      []Mount
	Network     string // none, bridge or host
	MemoryBytes int64
	CPUs        float64
	PidsLimit   int64
	Runtime     string // "" is the engine's default
	// Role says what the container is for, and by that what it may.
	Role Role
	// Hosts are further names in it, each with an address: "db:127.0.0.1".
	Hosts []string
	// Program is what a container of the role Service runs.
	Program *Program
}

// Mount is a folder or file of a container that comes from outside.
type Mount struct {
	Kind MountKind
	// Source is a host path of a Bind, the name of a Volume, and empty for Memory.
	Source, Target string
	ReadOnly       bool
	// Bytes bounds Memory.
	Bytes int64
	// Fill copies what the image has at the target into a Volume that is empty, with its owners.
	Fill bool
	// Alone leaves out what is mounted below the source of a Bind: it would be writable even where the Bind is not.
	Alone bool
}

// MountKind says what a Mount's source is.
type MountKind string

// The kinds.
const (
	Bind   MountKind = "" // the engine sees the host's files
	Volume MountKind = "volume"
	Memory MountKind = "tmpfs"
)

// Volumes is a Driver with storage of its own. Everything it makes carries labels, as containers do.
type Volumes interface {
	// EnsureVolume makes a volume unless it is there. One of that name with another LabelInstance is an error. mark tells it
	// from every other one that has had, or will have, its name.
	EnsureVolume(ctx context.Context, name string, labels map[string]string) (mark string, err error)
	// RemoveVolume removes a volume. One that does not exist is no error, one in use is.
	RemoveVolume(ctx context.Context, name string) error
	ListVolumes(ctx context.Context, instance string) ([]Owned, error)
}

// Images is a Driver that keeps images. To make them it is an image.Engine, too.
type Images interface {
	// ListImages returns the instance's images, the latest first, and one with several names once for each.
	ListImages(ctx context.Context, instance string) ([]Owned, error)
	RemoveImage(ctx context.Context, ref string) error
}

// Owned is a container, volume or image that an instance made.
type Owned struct {
	ID, Name string
	Labels   map[string]string
	// State and Image are known of containers: running, paused and so on; what it was made of.
	State, Image string
	Created      time.Time // known of containers and images
}

// OwnedBy returns those of an instance: never trust a filter with somebody else's work.
func OwnedBy(instance string, listed []Owned) []Owned {
	var own []Owned
	for _, o := range listed {
		if o.Labels[LabelInstance] == instance {
			own = append(own, o)
		}
	}
	return own
}

// Labels on every container.
const (
	LabelInstance = "flynn.instance"
	LabelSession  = "flynn.session"
	LabelSandbox  = "flynn.sandbox"
	LabelSpec     = "flynn.spec"
	LabelKey      = "flynn.key"
	// LabelHost tells the processes of an instance apart: a command line tool works beside the host.
	LabelHost = "flynn.host"
	// LabelPlace tells where the instance's processes can see each other; see package liveness.
	LabelPlace = "flynn.place"
	// LabelExpires is an RFC 3339 time after which the instance replaces the container.
	LabelExpires = "flynn.expires"
)

// Locator is a Driver that knows the address of its engine.
type Locator interface {
	Address() string
}

// Filler is a Driver that can put files into a container.
type Filler interface {
	// Fill unpacks a tar in a folder of a container that was never started.
	Fill(ctx context.Context, id, dir string, files io.Reader) error
}

// LabelVolume is the name that the configuration gives a volume. A volume of one session carries LabelSession too.
const LabelVolume = "flynn.volume"

// LabelService is a service's name, on its container.
const LabelService = "flynn.service"

// Supports says why the engine cannot make containers with a runtime, as far as it is known beforehand.
func (c Capabilities) Supports(runtime string) error {
	if runtime == "" || slices.Contains(c.Runtimes, runtime) {
		return nil
	}
	return fmt.Errorf("%w: the engine at %s has no runtime %q, only %s: register it there, or change runtime in [sandbox]",
		machine.ErrUnavailable, c.Address, runtime, strings.Join(c.Runtimes, ", "))
}
