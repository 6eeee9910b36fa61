package sandbox

import (
	"context"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Import unpacks a tar, a tar.gz or a zip into a folder of the workspace, which is made if it is missing. Nothing of it is
// believed: the error wraps archive.ErrRefused when it breaks a limit or holds something that is dangerous to unpack, and then
// nothing of it stays. Files that are there are replaced if the archive has them too. The host touches no file: what
// passes is unpacked inside, by the workload's user.
func (s *Session) Import(ctx context.Context, dir string, packed io.Reader, l archive.Limits) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		defer b.bringHome(ctx)
		tally, err = b.unpack(ctx, name, func(w io.Writer) (archive.Tally, error) {
			return archive.Repack(packed, l, name, w)
		})
		return err
	})
	return tally, err
}

// Export writes a folder of the workspace as a tar: its files, folders and links. Special files and what the workload's
// user cannot read are skipped and counted.
func (s *Session) Export(ctx context.Context, dir string, w io.Writer) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		out := archive.NewTarWriter(w)
		if tally, err = b.pack(ctx, frame.ExportBody{Path: []byte(name)}, nil, out.Write); err == nil {
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
func (b *box) unpack(ctx context.Context, name string, write func(io.Writer) (archive.Tally, error)) (archive.Tally, error) {
	var tally archive.Tally
	err := b.link.Import(ctx, name, func(w io.Writer) (err error) {
		tally, err = write(w)
		return err
	})
	if err != nil {
		return archive.Tally{}, fmt.Errorf("unpack into %s: %w", name, err)
	}
	return tally, nil
}

// pack hands over the records of a folder one by one. Each fits to those before it; content is there to be read during
// the call. known, if not nil, are the records that need no content if they are still true.
func (b *box) pack(ctx context.Context, body frame.ExportBody, known io.Reader, take func(r frame.Record, content io.Reader) error) (archive.Tally, error) {
	var tally archive.Tally
	reply, err := b.link.Export(ctx, body, known, func(wire io.Reader) error {
		return archive.NewReader(wire).Each(func(r frame.Record, content io.Reader) error {
			tally.Count(r)
			return take(r, content)
		})
	})
	tally.Skipped, tally.Torn = reply.Skipped, reply.Torn
	return tally, err
}
