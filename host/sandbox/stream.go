package sandbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Open opens a file to be read from its start to where it ends at this moment, whatever its size. Reading fails when ctx
// ends. The session's container is not idle until the file is closed.
func (s *Session) Open(ctx context.Context, path string) (io.ReadCloser, machine.FileInfo, error) {
	name, err := inside(path, s.spec.WorkspaceDir)
	if err != nil {
		return nil, machine.FileInfo{}, err
	}
	b, release, err := s.acquire(ctx)
	if err != nil {
		return nil, machine.FileInfo{}, err
	}
	d, err := b.download(ctx, name)
	if err != nil {
		release()
		return nil, machine.FileInfo{}, fmt.Errorf("read %s: %w", name, err)
	}
	d.release = release
	return d, d.info, nil
}

// Put replaces a file by all of r, whatever its size; a size that is not negative must be r's. It makes folders that are
// missing and is done at once or not at all, as WriteFile.
func (s *Session) Put(ctx context.Context, path string, r io.Reader, size int64, perm fs.FileMode) error {
	return s.at(ctx, path, func(b *box, name string) error {
		defer b.carry.settle(ctx, b)
		return b.put(ctx, name, r, size, perm)
	})
}

// Stat says what a path is; links within the workspace are followed.
func (s *Session) Stat(ctx context.Context, path string) (info machine.FileInfo, err error) {
	err = s.at(ctx, path, func(b *box, name string) error {
		var e frame.Entry
		if err := b.transfer(ctx, request{typ: frame.Stat, body: frame.StatBody{Path: []byte(name)}, reply: &e}); err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		info, err = fileInfo(e)
		return b.checked(err)
	})
	return info, err
}

// Remove removes a file, a link or an empty folder; with all, a folder with everything in it.
func (s *Session) Remove(ctx context.Context, path string, all bool) error {
	return s.at(ctx, path, func(b *box, name string) error {
		defer b.carry.settle(ctx, b)
		body := frame.RemoveBody{Path: []byte(name), All: all}
		if err := b.transfer(ctx, request{typ: frame.Remove, body: body, reply: &struct{}{}}); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		return nil
	})
}

// at does something to a path of the workspace in a live container.
func (s *Session) at(ctx context.Context, path string, do func(b *box, name string) error) error {
	name, err := inside(path, s.spec.WorkspaceDir)
	if err != nil {
		return err
	}
	b, release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do(b, name)
}

func (b *box) put(ctx context.Context, name string, r io.Reader, size int64, perm fs.FileMode) error {
	err := b.transfer(ctx, request{
		typ: frame.Write, body: frame.WriteBody{Path: []byte(name), Perm: uint32(perm.Perm()), Size: size},
		send: r, reply: &struct{}{},
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// download is a file that is being read.
type download struct {
	*flow
	ctx     context.Context
	info    machine.FileInfo
	rest    []byte // come, but not read yet
	left    int64  // of the file
	err     error
	release func()
}

// download opens a file and waits for the supervisor's word on what it is.
func (b *box) download(ctx context.Context, name string) (*download, error) {
	body := frame.ReadBody{Path: []byte(name), Max: endless, Head: true}
	f, err := b.openFlow(ctx, frame.Read, body, endless)
	if err != nil {
		return nil, err
	}
	d := &download{flow: f, ctx: ctx}
	if err := d.head(); err != nil {
		f.close()
		return nil, err
	}
	return d, nil
}

// head reads the file's entry. The supervisor sends it in one frame.
func (d *download) head() error {
	p, err := d.take(d.ctx, frame.Err)
	if err == io.EOF {
		err = fmt.Errorf("%w: a file without its entry", frame.ErrProtocol)
	}
	var e frame.Entry
	if err == nil {
		err = frame.Decode(p, &e)
	}
	if err == nil {
		d.info, err = fileInfo(e)
	}
	d.left = d.info.Size
	return d.b.checked(err)
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.err == nil {
		d.rest, d.err = d.next(d.ctx)
		if d.left -= int64(len(d.rest)); d.left < 0 {
			d.err = d.b.checked(fmt.Errorf("%w: more bytes than the file has", frame.ErrProtocol))
			d.rest = nil
		}
		if d.err == io.EOF && d.left > 0 {
			d.err = fmt.Errorf("%w: the file became shorter while it was read", io.ErrUnexpectedEOF)
		}
	}
	n := copy(p, d.rest)
	if d.rest = d.rest[n:]; len(d.rest) == 0 && n == 0 {
		return 0, d.err
	}
	return n, nil
}

// Close ends the reading, wherever it is.
func (d *download) Close() error {
	if d.release == nil {
		return fs.ErrClosed
	}
	d.close()
	d.release()
	d.release, d.err, d.rest = nil, fs.ErrClosed, nil
	return nil
}

// fileInfo checks what the supervisor says about a file.
func fileInfo(e frame.Entry) (machine.FileInfo, error) {
	if e.Size < 0 {
		return machine.FileInfo{}, fmt.Errorf("%w: malformed entry", frame.ErrProtocol)
	}
	return machine.FileInfo{Name: string(e.Name), Size: e.Size, Mode: fileMode(e.Mode), Mtime: time.Unix(0, e.Mtime)}, nil
}
