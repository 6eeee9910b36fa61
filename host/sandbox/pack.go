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
// user cannot read are skipped and counted, and so are hooks of git unless l.Hooks lets them through: git would run them where
// the tar is unpacked.
func (s *Session) Export(ctx context.Context, dir string, w io.Writer, l archive.Limits) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		out := archive.NewTarWriter(w)
		if tally, err = b.pack(ctx, name, hooksOf(l, name), out.Write); err == nil {
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

// hooksOf finds the hooks of git that stay behind when a folder leaves the sandbox; nil if none do.
func hooksOf(l archive.Limits, places ...string) *archive.Hooks {
	if l.Hooks {
		return nil
	}
	return archive.NewHooks(places...)
}

// pack hands over the records of a folder one by one, but for hooks. Each fits to those before it; content is there to be read
// during the call.
func (b *box) pack(ctx context.Context, name string, hooks *archive.Hooks, take func(r frame.Record, content io.Reader) error) (archive.Tally, error) {
	var tally archive.Tally
	reply, err := b.link.Export(ctx, frame.ExportBody{Path: []byte(name)}, nil, func(wire io.Reader) error {
		return archive.NewReader(wire).Each(func(r frame.Record, content io.Reader) error {
			if hooks != nil && hooks.Has(r) {
				tally.Leave(string(r.Path), archive.Hook)
				return nil
			}
			tally.Count(r)
			return take(r, content)
		})
	})
	for _, path := range reply.Special {
		tally.Leave(string(path), archive.Special)
	}
	for _, path := range reply.Closed {
		tally.Leave(string(path), archive.Closed)
	}
	tally.Skipped += max(0, reply.Skipped-int64(len(reply.Special)+len(reply.Closed)))
	tally.Torn = reply.Torn
	return tally, err
}
