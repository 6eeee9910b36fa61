package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// CopyOut copies a folder of the workspace into one of the host: files, folders, and links as links. Nothing outside of
// it is touched, whatever the names inside are, and what is in the way stays, with an error.
func (s *Session) CopyOut(ctx context.Context, dir string, to *os.Root) (tally Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		if tally, err = b.pack(ctx, frame.ExportBody{Path: []byte(name)}, nil, folder{root: to}.put); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		return nil
	})
	return tally, err
}

// CopyIn copies a folder of the host into one of the workspace, which is made if it is missing: all of it or nothing.
func (s *Session) CopyIn(ctx context.Context, dir string, from *os.Root) (tally Tally, err error) {
	err = s.at(ctx, dir, func(b *box, name string) error {
		defer b.carry.settle(ctx, b)
		tally, err = b.unpack(ctx, name, func(w io.Writer) (Tally, error) {
			var t Tally
			out, f := bufio.NewWriterSize(w, frame.MaxData), folder{root: from}
			err := f.walk(ctx, ".", func(r frame.Record, content func() (*os.File, error)) error {
				t.count(r)
				return f.send(out, r, content)
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
