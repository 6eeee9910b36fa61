package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
)

// CopyOut copies a folder of the workspace to a folder of the host: files, folders, and links as links. It writes nothing outside of that
// folder, whatever names the workspace contains, and fails rather than overwrite an existing file. Git hooks are skipped unless l.Hooks is
// set, because the host's git would run them.
func (s *Session) CopyOut(ctx context.Context, dir string, to *os.Root, l archive.Limits) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(c *container.Container, name string) error {
		if tally, err = c.Pack(ctx, name, hooksOf(l, name, to.Name()), fsroot.Tree{Root: to}.Put); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		return nil
	})
	return tally, err
}

// CopyIn copies a folder of the host into a folder of the workspace, which is created if missing: all of it or nothing.
func (s *Session) CopyIn(ctx context.Context, dir string, from *os.Root) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(c *container.Container, name string) error {
		defer c.PullWorkspace(ctx)
		tally, err = c.Unpack(ctx, name, func(w io.Writer) (archive.Tally, error) {
			var t archive.Tally
			out := bufio.NewWriterSize(w, frame.MaxData)
			tree := fsroot.Tree{Root: from, Passed: func(name string) { t.Leave(name, archive.Special) }}
			err := tree.Walk(ctx, func(e fsroot.Entry) error {
				t.Count(e.Record)
				return e.Send(out)
			})
			if err == nil {
				err = out.Flush()
			}
			return t, err
		})
		return err
	})
	return tally, err
}

// Import unpacks a tar, a tar.gz or a zip into a folder of the workspace, which is created if missing. The archive is not trusted: if it
// breaks a limit or is dangerous to unpack, the error wraps archive.ErrRefused and nothing of it stays. Existing files are replaced. The
// host touches no file: accepted entries are unpacked inside, by the workload's user.
func (s *Session) Import(ctx context.Context, dir string, packed io.Reader, l archive.Limits) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(c *container.Container, name string) error {
		defer c.PullWorkspace(ctx)
		tally, err = c.Unpack(ctx, name, func(w io.Writer) (archive.Tally, error) {
			return archive.Repack(packed, l, name, w)
		})
		return err
	})
	return tally, err
}

// Export writes a folder of the workspace as a tar: its files, folders and links. Special files and files that the workload's user cannot
// read are skipped and counted, and so are git hooks unless l.Hooks is set, because git would run them where the tar is unpacked.
func (s *Session) Export(ctx context.Context, dir string, w io.Writer, l archive.Limits) (tally archive.Tally, err error) {
	err = s.at(ctx, dir, func(c *container.Container, name string) error {
		out := archive.NewTarWriter(w)
		if tally, err = c.Pack(ctx, name, hooksOf(l, name), out.Write); err == nil {
			err = out.Close()
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return nil
	})
	return tally, err
}

// hooksOf returns the finder of the git hooks to skip when a folder leaves the sandbox; nil if hooks are kept.
func hooksOf(l archive.Limits, places ...string) *archive.Hooks {
	if l.Hooks {
		return nil
	}
	return archive.NewHooks(places...)
}
