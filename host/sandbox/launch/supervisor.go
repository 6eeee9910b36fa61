package launch

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

const (
	// supervisorFolder is the path in containers of the volume with the supervisor.
	supervisorFolder = "/.flynn-bin"
	// supervisorVolume is a prefix that names in the configuration cannot have.
	supervisorVolume = ".supervisor-"
)

// supervisor provides the supervisor's binary to containers. An engine on another machine cannot mount the host's folders, so it gets a
// volume that is filled once.
type supervisor struct {
	engine *engine

	filling sync.Mutex // guards filled, also while the volume is filled
	filled  bool       // the volume
}

// mount returns the mount and the path of the supervisor in a container.
func (s *supervisor) mount(ctx context.Context, image string) (driver.Mount, string, error) {
	if s.engine.Driver.Binds() {
		return driver.Mount{Source: s.engine.Supervisor, Target: supervisorPath, ReadOnly: true}, supervisorPath, nil
	}
	name, err := s.volume(ctx, image)
	return driver.Mount{Kind: driver.Volume, Source: name, Target: supervisorFolder, ReadOnly: true}, supervisorFolder + "/" + program.Supervisor, err
}

// volume creates the volume with this host's supervisor, once per process.
func (s *supervisor) volume(ctx context.Context, image string) (string, error) {
	v := Volume{Name: supervisorVolume + s.engine.Digest}
	name := v.engineName(s.engine.Instance)
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.filled {
		return name, nil
	}
	volumes, is := s.engine.Driver.(driver.Volumes)
	filler, can := s.engine.Driver.(driver.Filler)
	if !is || !can {
		return "", fmt.Errorf("%w: this engine supports neither folders of the host nor volumes", machine.ErrUnavailable)
	}
	binary, err := os.ReadFile(s.engine.Supervisor)
	if err != nil {
		return "", fmt.Errorf("read supervisor: %w", err)
	}
	if _, err := volumes.EnsureVolume(ctx, name, v.labels(s.engine.Instance)); err != nil {
		return "", err
	}
	if err := s.fill(ctx, filler, name, image, binary); err != nil {
		return "", fmt.Errorf("copy the supervisor to the engine: %w", err)
	}
	s.filled = true
	s.removeOld(ctx, name)
	return name, nil
}

// fill copies the supervisor to the volume by way of a container that is never started.
func (s *supervisor) fill(ctx context.Context, d driver.Filler, name, image string, binary []byte) error {
	c := s.engine.preparer("fill", image, Timeout, []string{"/never"}, driver.Mount{Kind: driver.Volume, Source: name, Target: volumeTarget})
	defer s.engine.Keys.Hold(c.Key)()
	defer s.engine.Reaper.Abandon(c.Name, nil)
	id, err := s.engine.create(ctx, c)
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = w.WriteHeader(&tar.Header{Name: program.Supervisor, Typeflag: tar.TypeReg, Mode: 0o555, Size: int64(len(binary))})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return d.Fill(ctx, id, volumeTarget, &files)
}

// removeOld removes the volumes of earlier supervisors. The engine refuses to remove those in use, which stay until the next time.
func (s *supervisor) removeOld(ctx context.Context, current string) {
	prefix := Volume{Name: supervisorVolume}.engineName(s.engine.Instance)
	err := s.engine.removeVolumes(ctx, func(o driver.Owned) bool { return o.Name != current && strings.HasPrefix(o.Name, prefix) })
	if err != nil {
		s.engine.Log.Debug("volumes of earlier supervisors stay", "error", err)
	}
}
