package docker

import (
	"bytes"
	"context"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

var _ driver.Services = (*Driver)(nil)

// serviceOpen is the limit of open files of a service.
const serviceOpen = 16384

// serve adapts the configuration for a container that runs its image's program. Everything not set here stays as confined as in other
// containers.
func serve(c driver.Container, config *container.Config, host *container.HostConfig) {
	p := c.Program
	if p == nil {
		p = &driver.Program{}
	}
	config.Hostname = "" // it shares the network and host name of another container
	config.User, config.WorkingDir, config.Env = p.User, p.Dir, p.Env
	config.Entrypoint, config.Cmd = p.Entrypoint, p.Cmd
	if p.Entrypoint != nil && len(p.Entrypoint) == 0 {
		config.Entrypoint = []string{""} // the engine's notation for none
	}
	config.OpenStdin, config.StdinOnce = false, false
	config.AttachStdin, config.AttachStdout, config.AttachStderr = false, false, false
	config.Healthcheck = nil
	if h := p.Health; h != nil {
		config.Healthcheck = &container.HealthConfig{
			Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries,
		}
	}
	host.AutoRemove = false // its last output is read after it has ended
	host.NetworkMode = container.NetworkMode("container:" + p.NetworkOf)
	host.ExtraHosts = nil
	host.ReadonlyRootfs = p.ReadOnlyRoot
	host.Tmpfs = nil
	host.Init = &p.Init
	host.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "256k", "max-file": "1"}}
	pids := c.PidsLimit
	host.PidsLimit = &pids
	host.Ulimits[0].Soft, host.Ulimits[0].Hard = serviceOpen, serviceOpen
}

// Condition implements driver.Services.
func (d *Driver) Condition(ctx context.Context, id string) (driver.Condition, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := d.inspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return driver.Condition{Gone: true}, nil
	}
	if err != nil {
		return driver.Condition{}, d.explain("inspect container", err)
	}
	state := found.State
	c := driver.Condition{Running: state.Running, Paused: state.Paused, ExitCode: state.ExitCode, OOM: state.OOMKilled}
	if h := state.Health; h != nil && h.Status != container.NoHealthcheck {
		c.Health = h.Status
		if n := len(h.Log); n > 0 && h.Log[n-1] != nil {
			c.Check = h.Log[n-1].Output
		}
	}
	return c, nil
}

// AwaitEnd implements driver.Services.
func (d *Driver) AwaitEnd(ctx context.Context, id string) error {
	ended, failed := d.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-failed:
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		return d.explain("wait for container", err)
	}
}

// LastOutput implements driver.Services.
func (d *Driver) LastOutput(ctx context.Context, id string, max int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	body, err := d.api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return nil, d.explain("read log of container", err)
	}
	defer body.Close()
	end := &tail{max: max}
	if _, err := stdcopy.StdCopy(end, end, body); err != nil && !strings.Contains(err.Error(), "Unrecognized input header") {
		return end.kept, d.explain("read log of container", err)
	}
	return bytes.Clone(end.kept), nil
}

// tail keeps the last bytes written to it.
type tail struct {
	kept []byte
	max  int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - t.max; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}
