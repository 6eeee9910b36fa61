package docker

import (
	"bytes"
	"context"
	"io"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// Run is a command run by the engine itself, without a supervisor to limit, stop or report on it.
type Run struct {
	Argv      []string
	Env       []string
	User, Dir string
	Terminal  bool // stdout and stderr together, as on a terminal
}

// Ran is the result of a Run.
type Ran struct {
	Stdout, Stderr []byte
	ExitCode       int
}

// Run waits for a command in a container. When ctx ends, the command continues: the engine cannot stop it.
func (d *Driver) Run(ctx context.Context, id string, r Run) (Ran, error) {
	made, err := d.api.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: r.Argv, Env: r.Env, User: r.User, WorkingDir: r.Dir, Tty: r.Terminal,
		AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return Ran{}, d.explain("run command", err)
	}
	conn, err := d.attached(ctx, "run command", func(ctx context.Context) (types.HijackedResponse, error) {
		return d.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{Tty: r.Terminal})
	})
	if err != nil {
		return Ran{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	var stdout, stderr bytes.Buffer
	if r.Terminal {
		_, err = io.Copy(&stdout, conn.Reader)
	} else {
		_, err = stdcopy.StdCopy(&stdout, &stderr, conn.Reader)
	}
	ran := Ran{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if ctx.Err() != nil {
		return ran, ctx.Err()
	}
	if err != nil {
		return ran, d.explain("read command's output", err)
	}
	state, err := d.api.ContainerExecInspect(ctx, made.ID)
	ran.ExitCode = state.ExitCode
	return ran, d.explain("inspect command", err)
}
