package launch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// errNoVolumes is the error for a specification with volumes on a driver that does not support them.
var errNoVolumes = fmt.Errorf("%w: volumes, which programs of agents of kind cli have as well, need a container engine, and sandboxes are made without one: start Docker or Podman", machine.ErrUnavailable)

// Volumes creates the engine's volumes and makes the user that commands run as their owner.
type Volumes struct {
	engine     *engine
	supervisor *supervisor

	mu    sync.Mutex
	ready map[string]*readiness // by name on the engine
}

// readiness is the state of a volume's preparation.
type readiness struct {
	mark string // the driver's mark of the volume that was prepared
	done chan struct{}
	err  error // valid once done is closed
}

// Volume is a volume to be mounted.
type Volume struct {
	Name    string // as in the configuration
	Session string // the only session that has it; "" if all sessions share it
	project bool   // named by a compose file
}

// engineName returns the volume's name on the engine: flynn-INSTANCE-SESSION-NAME.
func (v Volume) engineName(instance string) string {
	whose := "shared"
	if v.Session != "" {
		sum := sha256.Sum256([]byte(v.Session))
		whose = hex.EncodeToString(sum[:16])
	}
	return "flynn-" + spec.Short(instance) + "-" + whose + "-" + v.Name
}

func (v Volume) labels(instance string) map[string]string {
	labels := map[string]string{driver.LabelInstance: instance, driver.LabelVolume: v.Name}
	if v.Session != "" {
		labels[driver.LabelSession] = v.Session
	}
	return labels
}

// Provide creates the volume if necessary, makes o its owner, and returns its name on the engine and the driver's mark. The owner is
// changed once per process, unless somebody has removed the volume since. image is the image of the container that does it.
func (vs *Volumes) Provide(ctx context.Context, v Volume, image string, o workspace.Owner) (name, mark string, err error) {
	if name, mark, err = vs.ensure(ctx, v); err != nil {
		return "", "", err
	}
	vs.mu.Lock()
	r := vs.ready[name]
	mine := r == nil || r.mark != mark
	if mine {
		r = &readiness{mark: mark, done: make(chan struct{})}
		vs.ready[name] = r
	}
	vs.mu.Unlock()
	if mine {
		r.err = vs.prepare(ctx, v, name, image, o)
		if r.err != nil {
			vs.forget(name)
		}
		close(r.done)
	}
	select {
	case <-r.done:
		return name, mark, r.err
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

func (vs *Volumes) forget(name string) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.ready, name)
}

// ensure creates the volume if necessary, without changing its owner.
func (vs *Volumes) ensure(ctx context.Context, v Volume) (name, mark string, err error) {
	d, ok := vs.engine.Driver.(driver.Volumes)
	if !ok {
		return "", "", errNoVolumes
	}
	name = v.engineName(vs.engine.Instance)
	mark, err = d.EnsureVolume(ctx, name, v.labels(vs.engine.Instance))
	return name, mark, err
}

func (vs *Volumes) prepare(ctx context.Context, v Volume, name, image string, o workspace.Owner) error {
	err := vs.handOver(ctx, v, name, image, o)
	if v.project && errors.As(err, new(foreignError)) {
		return nil // a service has become its owner, which is allowed
	}
	if err != nil {
		return fmt.Errorf("give volume %q to user %d: %w", v.Name, o.UID, err)
	}
	return nil
}

// foreignError is the error for a volume that has another owner.
type foreignError struct{ uid uint64 }

func (e foreignError) Error() string {
	return fmt.Sprintf("it belongs to user %d: remove it and its files with flynn sandbox prune --volumes", e.uid)
}

const (
	// volumeTarget is the volume's path in the container that changes its owner.
	volumeTarget = "/.flynn-volume"
	// ownTimeout bounds the life of that container once its image is there.
	ownTimeout = time.Minute
)

// handOver runs the supervisor's program in a container that has only the volume and the capability to change owners.
func (vs *Volumes) handOver(ctx context.Context, v Volume, name, image string, o workspace.Owner) (err error) {
	program, entry, err := vs.supervisor.mount(ctx, image)
	if err != nil {
		return err
	}
	c := vs.engine.preparer("own", image, ownTimeout, []string{entry, "own", strconv.Itoa(o.UID), strconv.Itoa(o.GID), volumeTarget},
		program, driver.Mount{Kind: driver.Volume, Source: name, Target: volumeTarget})
	defer vs.engine.Keys.Hold(c.Key)() // so that nobody takes it for a leftover
	maps.Copy(c.Labels, v.labels(vs.engine.Instance))
	defer vs.engine.Reaper.Abandon(c.Name, nil)
	id, err := vs.engine.create(ctx, c)
	if err != nil {
		return err
	}
	complaint := &bounded{limit: 1 << 10}
	stream, err := vs.engine.Driver.Attach(ctx, id, complaint)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := vs.engine.Driver.Start(ctx, id); err != nil {
		return err
	}
	watchdog := time.AfterFunc(ownTimeout, func() { stream.Close() })
	defer watchdog.Stop()
	line, err := bufio.NewReader(io.LimitReader(stream, 64)).ReadString('\n')
	said, other, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch uid, notNumber := strconv.ParseUint(other, 10, 32); {
	case said == "owned":
		return nil
	case said == "foreign" && notNumber == nil:
		return foreignError{uid}
	}
	if text := complaint.String(); text != "" {
		return fmt.Errorf("%q", text)
	}
	return fmt.Errorf("it ended without an answer: %w", errors.Join(err, ctx.Err()))
}

// bounded keeps the first bytes written to it.
type bounded struct {
	mu    sync.Mutex
	text  []byte
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p[:min(len(p), b.limit-len(b.text))]...)
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.text))
}

// Remove removes those of this instance's volumes for which such returns true. It keeps one that a container uses and returns an error.
func (vs *Volumes) Remove(ctx context.Context, such func(driver.Owned) bool) error {
	return vs.engine.removeVolumes(ctx, func(o driver.Owned) bool {
		if !such(o) {
			return false
		}
		vs.forget(o.Name)
		return true
	})
}
