// Package sandbox is for writing a sandbox driver: a program that makes the containers in which Flynn runs commands, on an engine or a service
// that Flynn itself does not know.
//
// Implement Driver and pass it to Main. The package handles the rest: the handshake with the host, the limits of the protocol, what a container
// asks for and the engine cannot hold, logging, shutdown, and the end of the process when its host is gone.
//
//	func main() { sandbox.Main(&podman{}) }
//
// A driver only controls. The first process of a container is Flynn's supervisor, which is among the container's mounts; it listens, and the
// host dials it at the address that Endpoint returns. Containers therefore outlast the driver's process, and a driver keeps nothing in memory
// that it cannot find again by labels.
//
// The host attacks a container of the driver before it uses the driver, and refuses a driver that does not hold what it claims, see
// flynn sandbox selftest. Container says what every container must have.
//
// The methods are called in this order: Describe at any time; Configure once; then the others, from many goroutines. Write logs with
// Config.Log. Standard output belongs to the handshake. Test with flynn plugin dev conform.
package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/sdk/plugin"
)

// Driver makes containers.
type Driver interface {
	// Describe describes the plugin. It must agree with plugin.toml, have no side effects, and return at once.
	Describe() Description
	// Configure receives the settings and checks them. FieldErrors mean that the settings are wrong; any other error means that the check
	// failed, and the host tries again. The engine need not answer yet.
	Configure(ctx context.Context, c Config) error
	// Capabilities asks the engine for a sign of life and says what it can do. The host calls it every few seconds.
	Capabilities(ctx context.Context) (Capabilities, error)
	// Create creates a container without starting it. A second call with the same Key must return the id of the first; calls with one key do
	// not overlap. ErrNoImage means that the engine does not have the image.
	Create(ctx context.Context, c Container) (id string, err error)
	// Start starts a created container. It is not an error if it runs.
	Start(ctx context.Context, id string) error
	// Endpoint returns where the supervisor of a started container listens. It may wait until that is known. An engine that pulls when a
	// container starts says here or in Start that there is no image.
	Endpoint(ctx context.Context, id string) (Endpoint, error)
	// Remove kills and removes a container, by id or name, and returns once it is gone. It is not an error if it does not exist.
	Remove(ctx context.Context, id string) error
	// List returns the containers whose label LabelInstance is instance, running or not. Other instances of Flynn and other people may use the
	// same engine.
	List(ctx context.Context, instance string) ([]Owned, error)
}

// Puller is a Driver that fetches images. The host calls it when Create has answered ErrNoImage, and then Create again. Without it, a person has to
// fetch the image; drivers whose engine pulls by itself do not need it.
type Puller interface {
	// Pull fetches an image. It calls progress, from one goroutine, with lines for people.
	Pull(ctx context.Context, image string, progress func(line string)) error
}

// Description describes the plugin. It must agree with plugin.toml.
type Description struct {
	Name    string // [a-z0-9-], 2 to 40 characters
	Version string // exact semver, no "v"
	// ConfigSchema is the JSON schema of the settings: the exact content of the file that plugin.toml names, or empty.
	ConfigSchema []byte
}

// Capabilities describe the engine. The host uses nothing that is not claimed, and tests each claim.
type Capabilities struct {
	Engine   string // product and version, for people
	Address  string // for people
	Runtimes []string
	// Networks are those that a container can have: NetworkNone, NetworkBridge, NetworkHost.
	Networks []string
	// Binds is whether containers can mount folders of the host's machine.
	Binds bool
	// Copies is whether they can have mounts of the kinds Copy and Disk. The host needs one of the two.
	Copies bool
	// Shared distinguishes the engine from all others, such as the id of a cluster. Hosts that share a database, and are told the same, go on
	// with each other's containers: each can list and remove them, and dial their endpoints, from wherever it runs. Empty if only this host can.
	Shared string
	// Lacks are the limits that cannot be held here.
	Lacks []Lack
	// Features are what every container has here. A configuration can require them.
	Features []Feature
}

// The networks.
const (
	NetworkNone   = "none"   // no interface but the loopback
	NetworkBridge = "bridge" // the engine's usual network
	NetworkHost   = "host"   // the engine's machine's own
)

// Limit is a limit that some machines cannot hold.
type Limit int

// The limits.
const (
	MemoryLimit Limit = iota + 1
	CPULimit
	PidsLimit
	// LeftMemory is shared memory (System V) that a command leaves behind, which must go when nobody is attached to it.
	LeftMemory
)

// Feature is what some engines give to every container, and others to none.
type Feature int

// The features.
const (
	// Seccomp is a filter of system calls under which commands run.
	Seccomp Feature = iota + 1
	// UserNamespaces gives each container one of its own, in which user 0 is not user 0 of the machine.
	UserNamespaces
	// Snapshots is that a mounted folder of the host's machine is that folder and no copy, so that the host can keep what is in it and bring it
	// back.
	Snapshots
)

// Lack is a limit that the engine cannot hold, and why.
type Lack struct {
	Limit Limit
	Why   string
}

// Container describes a container. Beyond the fields, every container has no capabilities but SETUID, SETGID and KILL, no new privileges, the
// engine's seccomp filter, a read-only root, a /tmp of 64 MiB in memory, its own IPC namespace, 1024 open files, no core files and no log. Its
// supervisor is process 1, user 0. It is not started again when it ends.
type Container struct {
	Key   string // unique to this attempt; the label LabelKey has it too
	Name  string // unique; for people
	Image string
	// Entrypoint is the supervisor and its arguments, in place of the image's program. A driver whose supervisors do not listen at
	// DefaultAddress adds one argument, the address: host:port, or the path of a Unix socket in the container.
	Entrypoint  []string
	Labels      map[string]string
	Mounts      []Mount
	Network     string
	MemoryBytes int64 // swap is off
	CPUs        float64
	PidsLimit   int64
	BestEffort  bool   // leave out limits that the engine lacks
	Runtime     string // "" is the engine's own
	Hosts       []string
	// Identity is the content of IdentityPath, readable by user 0 of the container only. It is a secret: it never becomes an argument, an
	// environment variable or a label, and is never logged.
	Identity []byte
}

const (
	// IdentityPath is where a container's Identity has to be, as a file of user 0 with mode 0400.
	IdentityPath = "/.flynn-identity"
	// DefaultAddress is where supervisors listen.
	DefaultAddress = ":7443"
)

// Mount is a folder or file that a container gets from outside.
type Mount struct {
	Kind           MountKind
	Source, Target string // absolute paths
	ReadOnly       bool
	// Bytes is the size of Memory or of a Disk, where 0 is no limit. Both have mode 1777 or 0777.
	Bytes int64
	// Alone leaves out other file systems mounted below Source.
	Alone bool
}

// MountKind is the kind of a mount.
type MountKind int

// The kinds.
const (
	Bind   MountKind = iota // a folder or file of the host's machine
	Memory                  // a file system in memory
	// Disk is an empty folder on a disk of the engine, which goes with the container.
	Disk
	// Copy is a copy of a file of the host's machine, or of a folder of files and symbolic links. Read it with ReadCopy during Create. Everybody
	// in the container can read and execute it, and nobody can change it.
	Copy
)

// Endpoint is the address of a supervisor.
type Endpoint struct {
	Network string // "unix" or "tcp"
	Address string // an absolute path, or an IP address and a port
}

// Owned is a container that an instance of Flynn made.
type Owned struct {
	ID, Name, Image string
	State           string // created, running, paused or exited
	Labels          map[string]string
	Created         time.Time
}

// Labels that every container has.
const (
	LabelInstance = "flynn.instance"
	LabelKey      = "flynn.key"
)

// Errors that the host understands; wrap them. Any other error is a failure of the driver.
var (
	ErrNoImage     = errors.New("the engine does not have the image")
	ErrCannotHold  = errors.New("the engine cannot hold this")
	ErrUnavailable = errors.New("the engine does not answer")
)

// The parts that plugins of every kind share, see sdk/plugin.
type (
	Config      = plugin.Config
	FieldError  = plugin.FieldError
	FieldErrors = plugin.FieldErrors
)

// Main runs d as a plugin process and does not return. It ends when the host requests it, or when the host is gone (standard input ends).
func Main(d Driver) { plugin.Main(Part(d)) }
