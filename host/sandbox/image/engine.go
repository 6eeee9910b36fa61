package image

import (
	"context"
	"errors"
	"io"
)

var (
	// ErrNoImage means that the engine does not have the image.
	ErrNoImage = errors.New("no such image")
	// ErrInUse means that an image cannot be removed because a container or another image needs it.
	ErrInUse = errors.New("image is in use")
)

// Engine is the engine that builds images. Its methods apply deadlines of their own to fast operations; building, running and pulling end
// with the context. A method that fails leaves nothing behind.
type Engine interface {
	Store
	Workbench
	// Build builds an image from a Dockerfile and its context. The error of a failed step is a StepError.
	Build(ctx context.Context, b Build, progress func(line string)) (Built, error)
}

// Store keeps images.
type Store interface {
	// InspectImage looks an image up by name or id; the error is ErrNoImage if it does not exist.
	InspectImage(ctx context.Context, ref string) (Info, error)
	Puller
	TagImage(ctx context.Context, id, ref string) error
	// RemoveImage removes an image by name or id, or only the name if it has others. It is not an error if it does not exist; if it is in
	// use the error is ErrInUse.
	RemoveImage(ctx context.Context, ref string) error
	// Platform returns the platform of the engine's images, such as linux/amd64.
	Platform(ctx context.Context) (string, error)
}

// Workbench has containers in which images are changed. They mount nothing from the host.
type Workbench interface {
	// CreateWork creates a container without starting it.
	CreateWork(ctx context.Context, w Work) (id string, err error)
	// HasPath reports whether a path exists in a container.
	HasPath(ctx context.Context, container, path string) (bool, error)
	// CopyInto unpacks an uncompressed tar in a folder of a container that was never started.
	CopyInto(ctx context.Context, container, folder string, archive io.Reader) error
	// RunWork starts a container and waits for its end. Its output, of both streams, is written to output.
	RunWork(ctx context.Context, container string, output io.Writer) (exitCode int, err error)
	// Commit makes an image from a container's files. Its settings are those of the image that the container was made from.
	Commit(ctx context.Context, container string, labels map[string]string) (id string, err error)
	// Remove kills and removes a container. It is not an error if it does not exist.
	Remove(ctx context.Context, container string) error
}

// Info describes an image.
type Info struct {
	ID       string
	Platform string // linux/amd64
	Labels   map[string]string

	// How a container is started by default.
	Entrypoint, Cmd []string
	Env             []string // "NAME=value"
	WorkingDir      string
	// OnBuild are instructions that a build from this image executes first.
	OnBuild []string
}

// Work is a container in which an image is changed. It runs as root with the capabilities that package managers need, and no others.
type Work struct {
	Name        string
	Image       string
	Argv        []string
	Network     string // none, bridge or host
	Labels      map[string]string
	MemoryBytes int64
	PidsLimit   int64
}

// Build is a Dockerfile to build.
type Build struct {
	// Context is the tar of the build context; Dockerfile is the name of a file in it.
	Context    io.Reader
	Dockerfile string
	// Bases are the ids of the images that the Dockerfile uses.
	Bases       []string
	Network     string // none, bridge or host
	MemoryBytes int64
	// NoCache repeats every step.
	NoCache bool
}

// Built is the result of a Build, by id.
type Built struct {
	Image string
	// Cached reports that the image existed before, possibly owned by somebody else.
	Cached bool
	// Stages are the new images of other stages, which speed up the next build.
	Stages []string
}
