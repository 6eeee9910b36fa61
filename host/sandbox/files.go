package sandbox

import (
	"context"
	"io"
	"io/fs"

	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/executor"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// ReadFile implements machine.Machine.
func (s *Session) ReadFile(ctx context.Context, path string, offset int64, max int64) (data []byte, size int64, err error) {
	err = s.at(ctx, path, func(c *container.Container, name string) error {
		data, size, err = c.Link.ReadFile(ctx, name, offset, max)
		return err
	})
	return data, size, err
}

// WriteFile implements machine.Machine.
func (s *Session) WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error {
	return s.at(ctx, path, func(c *container.Container, name string) error {
		defer c.PullWorkspace(ctx)
		return c.Link.WriteFile(ctx, name, data, perm)
	})
}

// List implements machine.Machine.
func (s *Session) List(ctx context.Context, path string) (infos []machine.FileInfo, err error) {
	err = s.at(ctx, path, func(c *container.Container, name string) error {
		infos, err = c.Link.List(ctx, name)
		return err
	})
	return infos, err
}

// Open opens a file for reading up to its current end, whatever its size. Reading fails when ctx ends. The session's container does not
// count as idle until the file is closed.
func (s *Session) Open(ctx context.Context, path string) (io.ReadCloser, machine.FileInfo, error) {
	name, err := executor.Inside(path, s.spec.WorkspaceDir)
	if err != nil {
		return nil, machine.FileInfo{}, err
	}
	c, release, err := s.acquire(ctx)
	if err != nil {
		return nil, machine.FileInfo{}, err
	}
	f, info, err := c.Link.Open(ctx, name)
	if err != nil {
		release()
		return nil, machine.FileInfo{}, err
	}
	return &openFile{f, release}, info, nil
}

// openFile is a file that is being read; its container is in use meanwhile.
type openFile struct {
	*link.File
	release func()
}

// Close stops reading, also in the middle of the file.
func (f *openFile) Close() error {
	if err := f.File.Close(); err != nil {
		return err // it was closed already
	}
	f.release()
	return nil
}

// Put replaces a file by the content of r, whatever its size; if size is not negative, r must have that size. Like WriteFile it creates
// missing folders and is atomic.
func (s *Session) Put(ctx context.Context, path string, r io.Reader, size int64, perm fs.FileMode) error {
	return s.at(ctx, path, func(c *container.Container, name string) error {
		defer c.PullWorkspace(ctx)
		return c.Link.Put(ctx, name, r, size, perm)
	})
}

// Stat describes a path; links within the workspace are followed.
func (s *Session) Stat(ctx context.Context, path string) (info machine.FileInfo, err error) {
	err = s.at(ctx, path, func(c *container.Container, name string) error {
		info, err = c.Link.Stat(ctx, name)
		return err
	})
	return info, err
}

// Remove removes a file, a link or an empty folder; with all, also a folder with everything in it.
func (s *Session) Remove(ctx context.Context, path string, all bool) error {
	return s.at(ctx, path, func(c *container.Container, name string) error {
		defer c.PullWorkspace(ctx)
		return c.Link.Remove(ctx, name, all)
	})
}

// at runs do on a path of the workspace in a live container.
func (s *Session) at(ctx context.Context, path string, do func(c *container.Container, name string) error) error {
	name, err := executor.Inside(path, s.spec.WorkspaceDir)
	if err != nil {
		return err
	}
	c, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do(c, name)
}
