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
	// Capabilities describes the driver and its engine.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Binds reports whether containers can mount folders of this machine. It does not ask the engine, which may take seconds to describe
	// itself when it is busy.
	Binds() bool
	// Create creates a container without starting it and returns its id. A second call with the same Key returns the id of the first.
	// ErrNoImage means that Pull might help.
	Create(ctx context.Context, c Container) (id string, err error)
	// Attach opens the byte stream to the container's first process; call it before Start, or output is lost. The process's
	// stderr is copied to stderr.
	Attach(ctx context.Context, id string, stderr io.Writer) (Stream, error)
	Start(ctx context.Context, id string) error
	// Remove kills and removes a container, by id or name, and returns once it is gone. It is not an error if the container does not exist.
	Remove(ctx context.Context, id string) error
	// List returns the containers that carry the owner label of instance.
	List(ctx context.Context, instance string) ([]Owned, error)
}

// Puller is a Driver that can fetch images.
type Puller interface {
	// Pull fetches an image, reporting progress one line at a time.
	Pull(ctx context.Context, image string, progress func(line string)) error
}

// Renamer is a Driver that can rename a container, to show people what it is.
type Renamer interface {
	Rename(ctx context.Context, id, name string) error
}

// Inspector is a Driver that can look images up. An unknown image is ErrNoImage.
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
	// Networks are those that a Container can have; nil is all.
	Networks []string
	// Lacks are limits that the driver cannot hold on this machine.
	Lacks []Lack
	// Shared distinguishes the engine from others for hosts that share it: each of them can list and remove containers of the others, and dial
	// their supervisors. Empty: only this host can.
	Shared string
	// Features are what every container has.
	Features []Feature
	// DataRoot is the folder of the engine's images and volumes, as a path of the engine's machine.
	DataRoot string
}

// Limit is a limit that some machines cannot hold.
type Limit string

// The limits. The first three are keys of [sandbox], on which every configuration relies.
const (
	MemoryLimit Limit = "memory_limit"
	CPULimit    Limit = "cpu_limit"
	PidsLimit   Limit = "pids_limit"
	// LeftMemory is shared memory (System V) that a command leaves behind.
	LeftMemory Limit = "shared memory that a command leaves behind until its session ends"
)

// Lack is a limit that a driver cannot hold on this machine.
type Lack struct {
	Limit Limit
	Why   string
}

func (l Lack) String() string { return string(l.Limit) + ": " + l.Why }

// Feature is what some engines give to every container, and others to none. A configuration can require it or prefer it.
type Feature string

// The features, as values of requires and prefers in [sandbox].
const (
	// Seccomp is a filter of system calls under which commands run.
	Seccomp Feature = "seccomp"
	// UserNamespaces gives each container one of its own, in which root is not root of the machine.
	UserNamespaces Feature = "user-namespaces"
	// Snapshots is that a workspace is a folder of this machine, which is kept and brought back in place. Those of other engines are
	// transferred first.
	Snapshots Feature = "snapshots"
)

// Mend says how to have a feature.
func (f Feature) Mend() string {
	switch f {
	case Seccomp:
		return `use an engine whose seccomp filter is on, or engine = "native"`
	case UserNamespaces:
		return `use an engine without root, one with userns-remap, or engine = "native" as a user other than root`
	}
	return `use an engine on this machine, or engine = "native"`
}

// Missing returns those of the features that containers do not have.
func (c Capabilities) Missing(wanted []Feature) (all []Feature) {
	for _, f := range wanted {
		if !slices.Contains(c.Features, f) {
			all = append(all, f)
		}
	}
	return all
}

// Lacking are the limits that cannot be held, each with the reason, for people.
func (c Capabilities) Lacking() (all []string) {
	for _, l := range c.Lacks {
		all = append(all, l.String())
	}
	return all
}

// ErrUnable wraps machine.ErrUnavailable: the engine answers, and cannot make such a container. Waiting does not help.
var ErrUnable = fmt.Errorf("%w", machine.ErrUnavailable)

// configured are the limits that are keys of [sandbox].
func configured() []Limit { return []Limit{MemoryLimit, CPULimit, PidsLimit} }

// NotHeld names the configured limits, and the features that a sandbox prefers, that it does without on this machine, in one line for people;
// "" if there are none.
func (c Capabilities) NotHeld(prefers []Feature) string {
	var names []string
	for _, f := range c.Missing(prefers) {
		names = append(names, string(f))
	}
	for _, l := range c.Lacks {
		if slices.Contains(configured(), l.Limit) {
			names = append(names, string(l.Limit))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "not held on this machine: " + strings.Join(names, ", ")
}

// Without returns the error of a sandbox that relies on one of the limits that a machine lacks, or nil.
func Without(lacks []Lack, bestEffort bool) error {
	for _, l := range lacks {
		if !bestEffort && slices.Contains(configured(), l.Limit) {
			return fmt.Errorf(`%w: this machine cannot hold %s: %s. Use a container engine, or write limits = "best-effort" in [sandbox] to do without`,
				ErrUnable, l.Limit, l.Why)
		}
	}
	return nil
}

// OwnTasks is what a driver adds to PidsLimit, for the supervisor's own threads.
const OwnTasks = 32

// Container describes a container to create. All containers of a role are confined in the same way, which is up to the driver and not to
// the caller: no capabilities except those to become a user and to signal it, no new privileges, a read-only root, a small /tmp, no log.
type Container struct {
	Key         string // idempotency key, unique to this attempt to create it
	Name        string
	Image       string
	Entrypoint  []string
	Labels      map[string]string
	Mounts      []Mount
	Network     string // none, bridge or host
	MemoryBytes int64
	CPUs        float64
	PidsLimit   int64
	BestEffort  bool   // limits that the driver cannot hold are left out
	Unfiltered  bool   // it may do without Seccomp
	Runtime     string // "" is the engine's default
	// Role is the container's purpose, which decides its capabilities.
	Role Role
	// Hosts are additional host names, each with an address: "db:127.0.0.1".
	Hosts []string
	// Program is the program of a container with the role Service.
	Program *Program
	// Identity is what the supervisor of a Dialed driver needs in order to listen, secret and made for this container alone. The driver
	// writes it to IdentityPath, readable by root only, and never to an argument, the environment or a label.
	Identity []byte
}

// Mount is a folder or file that a container gets from outside.
type Mount struct {
	Kind MountKind
	// Source is a host path for Bind and Copy, a name for Volume, and empty for Memory and Disk.
	Source, Target string
	ReadOnly       bool
	// Bytes bounds Memory and Disk; 0 is no limit of a Disk.
	Bytes int64
	// Fill copies the image's files at the target, with their owners, into an empty Volume.
	Fill bool
	// Alone leaves out other file systems mounted below the source of a Bind: they would be writable even where the Bind is not.
	Alone bool
}

// MountKind is the kind of a Mount's source.
type MountKind string

// The kinds.
const (
	Bind   MountKind = "" // a path of the host that the engine can mount
	Volume MountKind = "volume"
	Memory MountKind = "tmpfs"
	// Disk is an empty folder on a disk of the engine that everybody in the container may write to. It goes with the container.
	Disk MountKind = "disk"
	// Copy is a copy of a file of the host, or of a folder of files and links, that nobody in the container can change.
	Copy MountKind = "copy"
)

// Copier is a Driver whose containers can have mounts of the kinds Copy and Disk in place of those that need Binds.
type Copier interface {
	Copies() bool
}

// Copies reports whether a driver that cannot mount folders of this machine uses copies and disks instead.
func Copies(d Driver) bool {
	c, is := d.(Copier)
	return is && !d.Binds() && c.Copies()
}

// Volumes is a Driver with its own storage. Everything that it creates carries labels, as containers do.
type Volumes interface {
	// EnsureVolume creates a volume unless it exists. An existing one with another LabelInstance is an error. mark distinguishes it from
	// all earlier and later volumes of the same name.
	EnsureVolume(ctx context.Context, name string, labels map[string]string) (mark string, err error)
	// RemoveVolume removes a volume. It is not an error if the volume does not exist, but it is if the volume is in use.
	RemoveVolume(ctx context.Context, name string) error
	ListVolumes(ctx context.Context, instance string) ([]Owned, error)
}

// Images is a Driver that stores images. One that can also build them implements image.Engine.
type Images interface {
	// ListImages returns the instance's images, the newest first; an image with several names occurs once for each.
	ListImages(ctx context.Context, instance string) ([]Owned, error)
	RemoveImage(ctx context.Context, ref string) error
}

// Owned is a container, volume or image that an instance made.
type Owned struct {
	ID, Name string
	Labels   map[string]string
	// State and Image are set for containers: a state such as running, paused, exited or dead, and the image it was made from.
	State, Image string
	Created      time.Time // set for containers and images
}

// OwnedBy returns the items that belong to an instance. It does not rely on the engine's filter, because other people's work is at stake.
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
	// LabelHost distinguishes the processes of an instance: a command line tool may run beside the host.
	LabelHost = "flynn.host"
	// LabelPlace names the environment in which the instance's processes can see each other; see package liveness.
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

// Confiner is a Driver whose supervisors have capabilities of their own kind, as bits; see capabilities(7). Others have SETUID, SETGID and KILL.
type Confiner interface {
	SupervisorCapabilities() uint64
}

// Direct is a Driver whose streams lead to the supervisor itself, so that no control socket would be a shorter way.
type Direct interface {
	// SupervisorUser returns the user id of supervisors, as this process sees it.
	SupervisorUser() uint32
}

// LabelVolume is the name of a volume in the configuration. A session's volume carries LabelSession too.
const LabelVolume = "flynn.volume"

// LabelService is the name of a service, on its container.
const LabelService = "flynn.service"

// Supports returns an error if the engine is known to lack a network, a runtime, a limit that is not best effort, or a feature.
func (c Capabilities) Supports(network, runtime string, bestEffort bool, requires ...Feature) error {
	if err := Without(c.Lacks, bestEffort); err != nil {
		return err
	}
	if missing := c.Missing(requires); len(missing) > 0 {
		return fmt.Errorf("%w: %s does not hold %s: %s, or write it in prefers instead of requires to do without",
			ErrUnable, c.Address, missing[0], missing[0].Mend())
	}
	if c.Networks != nil && !slices.Contains(c.Networks, network) {
		return fmt.Errorf("%w: %s has no network %q, only %q: change network in [sandbox], or use another engine",
			ErrUnable, c.Address, network, c.Networks)
	}
	if runtime == "" || slices.Contains(c.Runtimes, runtime) {
		return nil
	}
	return fmt.Errorf("%w: the engine at %s has no runtime %q, only %s: register it there, or change runtime in [sandbox]",
		ErrUnable, c.Address, runtime, strings.Join(c.Runtimes, ", "))
}

// Usage is what a container uses.
type Usage struct {
	Memory    int64 // bytes, with what could be dropped
	Processes int64 // and threads
}

// Meter is implemented by drivers that can tell what a container uses.
type Meter interface {
	Usage(ctx context.Context, id string) (Usage, error)
}
