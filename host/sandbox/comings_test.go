package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

var comings = flag.Int("comings", 18, "sessions that come and go")

// comingWorkers have a session each at a time.
const comingWorkers = 8

// Sessions of every kind come and go, and some of their containers are meddled with. Of none is anything left: on the engine,
// in this process, or in the folders that are not theirs.
func TestSessionsComeAndGo(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	left := lookForLeftovers(t, h, m, config)
	c := comer{t: t, h: h, m: m, config: config}
	c.project = composed(t, config, "services:\n  app: {image: IMAGE}\n  web: {image: IMAGE, command: [sleep, '1000'], volumes: ['v:/v']}\nvolumes: {v: }\n")
	m.SetPools([]sandbox.Pool{{Spec: config.Spec, Size: 2}}, 100)
	var all sync.WaitGroup
	var next atomic.Int64
	for range comingWorkers {
		all.Go(func() {
			for i := int(next.Add(1)); i <= *comings; i = int(next.Add(1)) {
				if err := c.visit(i); err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()

	left.none(func() bool { return len(possessions(t, h, config.Instance)) == 0 })
}

// comer has sessions come and go.
type comer struct {
	t       *testing.T
	h       sandboxtest.Host
	m       *sandbox.Manager
	config  sandbox.Config
	project spec.Spec
}

// visit is one session from its first command to its end.
func (c *comer) visit(i int) error {
	session, wanted := message.WorkspaceKey(fmt.Sprint("s", i)), c.config.Spec
	var meddle func(id string) error
	switch i % 6 {
	case 1:
		wanted.Volumes = []spec.VolumeMount{{Name: "v", Target: "/v"}}
	case 2:
		wanted = c.project
	case 3:
		wanted.Network, wanted.Allowlist = "allowlist", []string{"example.com"}
	case 4:
		meddle = func(id string) error {
			return c.h.API.ContainerRemove(context.Background(), id, container.RemoveOptions{Force: true})
		}
	case 5:
		meddle = func(id string) error {
			return errors.Join(c.h.API.ContainerRename(context.Background(), id, "renamed-"+id[:12]), c.h.API.ContainerPause(context.Background(), id))
		}
	}
	if err := c.use(session, wanted); err != nil {
		return err
	}
	if meddle != nil {
		if err := c.each(session, meddle); err != nil {
			return fmt.Errorf("meddle: %w", err)
		}
	}
	if i%6 == 4 {
		err := c.use(session, wanted)
		if errors.Is(err, machine.ErrUnavailable) { // the host had not yet heard of the end
			err = c.use(session, wanted)
		}
		if err != nil {
			return fmt.Errorf("afterwards: %w", err)
		}
	}
	folder := workspace.Path(c.config.WorkspaceRoot, session)
	if _, err := os.Stat(filepath.Join(folder, "kept")); err != nil {
		return err
	}
	return c.m.Forget(context.Background(), session)
}

// use has a command and a background process.
func (c *comer) use(session message.WorkspaceKey, spec spec.Spec) error {
	s, err := c.m.Get(context.Background(), session, "default", spec)
	if err != nil {
		return err
	}
	if r, err := s.Exec(context.Background(), machine.Command{Script: "echo x > kept"}); err != nil || r.ExitCode != 0 {
		return fmt.Errorf("result %+v, %w", r, err)
	}
	_, err = s.Start(context.Background(), machine.Command{Script: "sleep 1000"})
	return err
}

func (c *comer) each(session message.WorkspaceKey, do func(id string) error) error {
	var all error
	for _, one := range containersOf(c.t, c.h, c.config.Instance, session) {
		all = errors.Join(all, do(one.ID))
	}
	return all
}
