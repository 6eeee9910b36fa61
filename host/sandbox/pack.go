package sandbox

import (
	"context"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/container"
)

// Import unpacks a tar, a tar.gz or a zip into a folder of the workspace, which is made if it is missing. Nothing of it is
// believed: the error wraps archive.ErrRefused when it breaks a limit or holds something that is dangerous to unpack, and then
// nothing of it stays. Files that are there are replaced if the archive has them too. The host touches no file: what
// passes is unpacked inside, by the workload's user.
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

// Export writes a folder of the workspace as a tar: its files, folders and links. Special files and what the workload's
// user cannot read are skipped and counted, and so are hooks of git unless l.Hooks lets them through: git would run them where
// the tar is unpacked.
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

// hooksOf finds the hooks of git that stay behind when a folder leaves the sandbox; nil if none do.
func hooksOf(l archive.Limits, places ...string) *archive.Hooks {
	if l.Hooks {
		return nil
	}
	return archive.NewHooks(places...)
}
