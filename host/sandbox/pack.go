package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Import unpacks a tar, a tar.gz or a zip into a folder of the workspace, which is made if it is missing. Nothing of it is
// believed: the error wraps ErrArchive when it breaks a limit or holds something that is dangerous to unpack, and then
// nothing of it stays. Files that are there are replaced if the archive has them too. The host touches no file: what
// passes is unpacked inside, by the workload's user.
func (s *Session) Import(ctx context.Context, dir string, archive io.Reader, l Limits) (tally Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		defer b.carry.settle(ctx, b)
		tally, err = b.unpack(ctx, name, func(w io.Writer) (Tally, error) {
			p := newRepacker(l, name, w)
			err := p.repack(archive)
			return p.tally, err
		})
		return err
	})
	return tally, err
}

// Export writes a folder of the workspace as a tar: its files, folders and links. Special files and what the workload's
// user cannot read are skipped and counted.
func (s *Session) Export(ctx context.Context, dir string, w io.Writer) (tally Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		out := tarball{tar.NewWriter(w)}
		if tally, err = b.pack(ctx, frame.ExportBody{Path: []byte(name)}, nil, out.add); err == nil {
			err = out.Close()
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return nil
	})
	return tally, err
}

// unpack has the supervisor unpack the records that write writes.
func (b *box) unpack(ctx context.Context, name string, write func(io.Writer) (Tally, error)) (Tally, error) {
	f, err := b.openFlow(ctx, frame.Import, frame.ImportBody{Path: []byte(name)}, 0)
	if err != nil {
		return Tally{}, err
	}
	defer f.close()
	tally, err := write(flowWriter{f, ctx})
	if err == nil {
		err = f.endInput()
	}
	if err == nil || errors.Is(err, frame.ErrClosed) { // the supervisor wants no more; its reply says why
		err = f.finish(ctx, nil, &struct{}{})
	}
	if err != nil {
		return Tally{}, fmt.Errorf("unpack into %s: %w", name, err)
	}
	return tally, nil
}

// maxPacked bounds the entries that a supervisor may send of one folder. It is what the supervisor itself keeps to.
const maxPacked = 1_000_000

// pack hands over the records of a folder one by one. Each fits to those before it; content is there to be read during
// the call. known, if not nil, are the records that need no content if they are still true.
func (b *box) pack(ctx context.Context, body frame.ExportBody, known io.Reader, take func(r frame.Record, content io.Reader) error) (Tally, error) {
	f, err := b.openFlow(ctx, frame.Export, body, endless)
	if err != nil {
		return Tally{}, err
	}
	defer f.close()
	if known != nil {
		if err := f.send(ctx, known); err != nil {
			return Tally{}, err
		}
	}
	var tally Tally
	in := frame.NewRecordReader(&flowReader{f: f, ctx: ctx})
	seen := newTree(maxPacked, frame.MaxPath, false)
	for {
		r, err := in.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = checkPacked(seen, r)
		}
		if err != nil {
			return tally, b.checked(err)
		}
		tally.count(r)
		if err := take(r, in); err != nil {
			return tally, err
		}
	}
	var reply frame.ExportReply
	err = b.checked(f.decode(&reply))
	tally.Skipped, tally.Torn = max(reply.Skipped, 0), max(reply.Torn, 0)
	return tally, err
}

// checkPacked refuses a record that no folder can have.
func checkPacked(seen *tree, r frame.Record) error {
	err := seen.add(string(r.Path), r.Type())
	if err == nil && r.Type() == frame.TypeFile && len(r.Link) > 0 {
		err = errors.New("another name of a file")
	}
	if err != nil {
		return fmt.Errorf("%w: record %.80q: %w", frame.ErrProtocol, r.Path, err)
	}
	return nil
}

// tarball writes records as a tar.
type tarball struct{ *tar.Writer }

func (t tarball) add(r frame.Record, content io.Reader) error {
	h := &tar.Header{Name: string(r.Path), Mode: int64(r.Mode & 0o777), ModTime: time.Unix(0, r.Mtime), Typeflag: tar.TypeReg, Size: r.Size}
	switch r.Type() {
	case frame.TypeFolder:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case frame.TypeLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(r.Link)
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

// flowWriter is a flow's stream In. It need not be buffered for speed if it gets large pieces.
type flowWriter struct {
	f   *flow
	ctx context.Context
}

func (w flowWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), frame.MaxData)
		if err := w.f.push(w.ctx, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// flowReader is a flow's stream Out.
type flowReader struct {
	f    *flow
	ctx  context.Context
	rest []byte // come, but not read yet
}

func (r *flowReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		var err error
		if r.rest, err = r.f.next(r.ctx); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
