package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/flynnhost/flynn/host/sandbox/image"
)

const (
	copyTimeout   = 10 * time.Minute
	commitTimeout = 10 * time.Minute
)

// CreateWork implements image.Workbench.
func (d *Driver) CreateWork(ctx context.Context, w image.Work) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	base, err := d.api.ImageInspect(ctx, w.Image)
	if err != nil {
		return "", d.explain("inspect image "+w.Image, err)
	}
	config, host := bench(w)
	if base.Config != nil && !isRoot(base.Config.User) {
		config.User = "0:0"
	}
	if err := d.adapt(ctx, host); err != nil {
		return "", err
	}
	made, err := d.api.ContainerCreate(ctx, config, host, nil, nil, w.Name)
	if err == nil && made.ID == "" {
		err = errIncomplete
	}
	return made.ID, d.explain("create container", err)
}

func isRoot(user string) bool {
	return slices.Contains([]string{"", "0", "root", "0:0", "root:root"}, user)
}

// bench returns the confinement of a container in which an image is changed: it has a network, a writable root and the capabilities that
// package managers need to install files for other users, but no access to the host.
func bench(w image.Work) (*container.Config, *container.HostConfig) {
	config := &container.Config{
		Image: w.Image, Entrypoint: w.Argv, Cmd: []string{}, Labels: w.Labels, AttachStdout: true, AttachStderr: true,
	}
	host := &container.HostConfig{
		NetworkMode:   container.NetworkMode(w.Network),
		IpcMode:       "private",
		CapDrop:       []string{"ALL"},
		CapAdd:        []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID"},
		SecurityOpt:   []string{"no-new-privileges"},
		Tmpfs:         map[string]string{"/tmp": tmpOptions}, // not part of the image
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: "no"},
		Resources: container.Resources{
			Memory: w.MemoryBytes, MemorySwap: w.MemoryBytes, PidsLimit: &w.PidsLimit,
			Ulimits: []*container.Ulimit{{Name: "nofile", Soft: maxOpen, Hard: maxOpen}, {Name: "core"}},
		},
	}
	return config, host
}

// HasPath implements image.Workbench.
func (d *Driver) HasPath(ctx context.Context, id, path string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	_, err := d.api.ContainerStatPath(ctx, id, path)
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, d.explain("look into container", err)
}

// CopyInto implements image.Workbench. It refuses a container that has run: a program inside could have prepared links for the engine,
// which unpacks as root of the host.
func (d *Driver) CopyInto(ctx context.Context, id, folder string, archive io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	ctx, leave := d.attended(ctx)
	defer leave()
	found, err := d.inspect(ctx, id)
	if err != nil {
		return d.explain("inspect container", err)
	}
	if found.State.Status != "created" {
		return fmt.Errorf("copy into container %s: it was started already", id)
	}
	err = d.api.CopyToContainer(ctx, id, folder, archive, container.CopyToContainerOptions{})
	return d.explain("copy into container", silence(ctx, err))
}

// RunWork implements image.Workbench. When ctx ends the container continues until it is removed.
func (d *Driver) RunWork(ctx context.Context, id string, output io.Writer) (code int, err error) {
	ctx, leave := d.attended(ctx)
	defer leave()
	defer func() {
		if context.Cause(ctx) == errSilent {
			err = d.explain("run a step of a build", silence(ctx, err))
		}
	}()
	conn, err := d.attached(ctx, "attach to container", func(ctx context.Context) (types.HijackedResponse, error) {
		return d.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	if err := d.Start(ctx, id); err != nil {
		return 0, err
	}
	if _, err := stdcopy.StdCopy(output, output, conn.Reader); err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("read output: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ended, failed := d.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case end := <-ended:
		if end.Error != nil {
			return 0, errors.New(end.Error.Message)
		}
		return int(end.StatusCode), nil
	case err := <-failed:
		return 0, errors.Join(ctx.Err(), err)
	}
}

// Commit implements image.Workbench. The engine would copy the container's start command, so the image's is restored.
func (d *Driver) Commit(ctx context.Context, id string, labels map[string]string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ctx, leave := d.attended(ctx)
	defer leave()
	found, err := d.inspect(ctx, id)
	if err != nil {
		return "", d.explain("inspect container", err)
	}
	base, err := d.api.ImageInspect(ctx, found.Image)
	if err != nil {
		return "", d.explain("inspect image "+found.Image, err)
	}
	config := &container.Config{Entrypoint: []string{}, Cmd: []string{}, Labels: map[string]string{}}
	if c := base.Config; c != nil {
		config.User, config.Shell, config.OnBuild = c.User, c.Shell, c.OnBuild
		config.Entrypoint, config.Cmd = append(config.Entrypoint, c.Entrypoint...), append(config.Cmd, c.Cmd...)
	}
	for key := range found.Config.Labels { // added for the container, not part of the image
		if base.Config == nil || base.Config.Labels[key] == "" {
			config.Labels[key] = ""
		}
	}
	for key, value := range labels {
		config.Labels[key] = value
	}
	made, err := d.api.ContainerCommit(ctx, id, container.CommitOptions{Config: config})
	if err == nil && made.ID == "" {
		err = errIncomplete
	}
	return made.ID, d.explain("commit container", silence(ctx, err))
}
