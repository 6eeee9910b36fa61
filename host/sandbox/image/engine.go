package image

import (
	"context"
	"errors"
	"io"
)

var (
	// ErrNoImage means that the engine does not have the image.
	ErrNoImage = errors.New("no such image")
	// ErrInUse means that an image cannot go, because a container or another image needs it.
	ErrInUse = errors.New("image is in use")
)

// Engine is what images are made on. Its methods put a deadline of their own on everything that should be quick; building,
// running and pulling end with the context. What a method that fails has made is gone when it returns.
type Engine interface {
	Store
	Workbench
	// Build makes an image of a Dockerfile and its context. A step that fails is a StepError.
	Build(ctx context.Context, b Build, progress func(line string)) (Built, error)
}

// Store keeps images.
type Store interface {
	// InspectImage looks an image up by name or id; ErrNoImage if it is not there.
	InspectImage(ctx context.Context, ref string) (Info, error)
	Puller
	TagImage(ctx context.Context, id, ref string) error
	// RemoveImage removes an image by name or id, or only the name if it has others. One that does not exist is no error, one
	// in use is ErrInUse.
	RemoveImage(ctx context.Context, ref string) error
	// Platform is what the engine makes images for: linux/amd64.
	Platform(ctx context.Context) (string, error)
}

// Workbench has containers that an image is changed in. Nothing of the host's is mounted in them.
type Workbench interface {
	// CreateWork makes a container that does not run.
	CreateWork(ctx context.Context, w Work) (id string, err error)
	// HasPath reports whether a path is there in a container.
	HasPath(ctx context.Context, container, path string) (bool, error)
	// CopyInto unpacks an uncompressed tar in a folder of a container that was never started.
	CopyInto(ctx context.Context, container, folder string, archive io.Reader) error
	// RunWork starts a container and waits for its end. What it prints on either stream goes to output.
	RunWork(ctx context.Context, container string, output io.Writer) (exitCode int, err error)
	// Commit makes an image of a container's files. Its settings are those of the image that the container was made from.
	Commit(ctx context.Context, container string, labels map[string]string) (id string, err error)
	// Remove ends and removes a container. One that does not exist is no error.
	Remove(ctx context.Context, container string) error
}

// Info is what there is to know about an image.
type Info struct {
	ID       string
	Platform string // linux/amd64
	Labels   map[string]string

	// How a container of it is started when nobody says otherwise.
	Entrypoint, Cmd []string
	Env             []string // "NAME=value"
	WorkingDir      string
	// OnBuild are instructions that a build which begins with it does first.
	OnBuild []string
}

// Work is a container to change an image in. It runs as root with what package managers need, and nothing else.
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
	// Bases are the ids of images that it begins with.
	Bases       []string
	Network     string // none, bridge or host
	MemoryBytes int64
	// NoCache has every step done anew.
	NoCache bool
}

// Built is what a Build has made, by id.
type Built struct {
	Image string
	// Cached says that the image was there before, maybe as somebody else's.
	Cached bool
	// Stages are the new images of other stages, which speed up the next build.
	Stages []string
}
