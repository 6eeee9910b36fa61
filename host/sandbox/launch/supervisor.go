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
	// supervisorFolder is where containers see the volume with the supervisor.
	supervisorFolder = "/.flynn-bin"
	// supervisorVolume is a name that the configuration cannot give a volume.
	supervisorVolume = ".supervisor-"
)

// supervisor brings the supervisor into containers. An engine on another machine sees none of the host's folders: there it comes from a
// volume that is filled once.
type supervisor struct {
	engine *engine

	filling sync.Mutex // guards filled, and is held over the filling
	filled  bool       // the volume
}

// mount is how a container gets the supervisor, and where it finds it.
func (s *supervisor) mount(ctx context.Context, image string) (driver.Mount, string, error) {
	if s.engine.Driver.Binds() {
		return driver.Mount{Source: s.engine.Supervisor, Target: supervisorPath, ReadOnly: true}, supervisorPath, nil
	}
	name, err := s.volume(ctx, image)
	return driver.Mount{Kind: driver.Volume, Source: name, Target: supervisorFolder, ReadOnly: true}, supervisorFolder + "/" + program.Supervisor, err
}

// volume makes the volume with this host's supervisor, once in this process.
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
		return "", fmt.Errorf("%w: this engine neither sees the host's folders nor keeps volumes", machine.ErrUnavailable)
	}
	binary, err := os.ReadFile(s.engine.Supervisor)
	if err != nil {
		return "", fmt.Errorf("read supervisor: %w", err)
	}
	if _, err := volumes.EnsureVolume(ctx, name, v.labels(s.engine.Instance)); err != nil {
		return "", err
	}
	if err := s.fill(ctx, filler, name, image, binary); err != nil {
		return "", fmt.Errorf("put the supervisor on the engine: %w", err)
	}
	s.filled = true
	s.removeOld(ctx, name)
	return name, nil
}

// fill puts the supervisor into the volume by way of a container that never runs.
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

// removeOld removes the volumes of earlier supervisors. The engine keeps those that are in use, for the next time.
func (s *supervisor) removeOld(ctx context.Context, current string) {
	prefix := Volume{Name: supervisorVolume}.engineName(s.engine.Instance)
	err := s.engine.removeVolumes(ctx, func(o driver.Owned) bool { return o.Name != current && strings.HasPrefix(o.Name, prefix) })
	if err != nil {
		s.engine.Log.Debug("volumes of earlier supervisors stay", "error", err)
	}
}
