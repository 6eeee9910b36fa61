package link

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// File is a file that is being read.
type File struct {
	flow *flow
	ctx  context.Context
	info machine.FileInfo
	rest []byte // received but not read yet
	left int64  // of the file
	err  error
}

// Open opens a file for reading up to its current end, whatever its size. Reading fails when ctx ends.
func (l *Link) Open(ctx context.Context, name string) (*File, machine.FileInfo, error) {
	body := frame.ReadBody{Path: []byte(name), Max: endless, Head: true}
	f, err := l.open(ctx, frame.Read, body, endless)
	if err != nil {
		return nil, machine.FileInfo{}, fmt.Errorf("read %s: %w", name, err)
	}
	file := &File{flow: f, ctx: ctx}
	if err := file.head(); err != nil {
		f.close()
		return nil, machine.FileInfo{}, fmt.Errorf("read %s: %w", name, err)
	}
	return file, file.info, nil
}

// head reads the file's entry, which the supervisor sends in one frame.
func (f *File) head() error {
	p, err := f.flow.take(f.ctx, frame.Err)
	if err == io.EOF {
		err = fmt.Errorf("%w: no entry before the file", frame.ErrProtocol)
	}
	var e frame.Entry
	if err == nil {
		err = frame.Decode(p, &e)
	}
	if err == nil {
		f.info, err = fileInfo(e)
	}
	f.left = f.info.Size
	return f.flow.call.link.checked(err)
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if len(f.rest) == 0 && f.err == nil {
		f.rest, f.err = f.flow.next(f.ctx)
		if f.left -= int64(len(f.rest)); f.left < 0 {
			f.err = f.flow.call.link.checked(fmt.Errorf("%w: more bytes than the file has", frame.ErrProtocol))
			f.rest = nil
		}
		if f.err == io.EOF && f.left > 0 {
			f.err = fmt.Errorf("%w: the file became shorter while it was read", io.ErrUnexpectedEOF)
		}
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) == 0 && n == 0 {
		return 0, f.err
	}
	return n, nil
}

// Close stops reading, also in the middle of the file.
func (f *File) Close() error {
	if f.flow == nil {
		return fs.ErrClosed
	}
	f.flow.close()
	f.flow, f.err, f.rest = nil, fs.ErrClosed, nil
	return nil
}
