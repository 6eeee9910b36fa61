//go:build linux

package supervise

import (
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// maxDepth bounds the nesting of folders; each level costs a descriptor.
const maxDepth = 200

// remove removes a file, a link itself, or a folder. The host may cancel it: a process that fills the folder meanwhile must not delay every
// other file request.
func (f *files) remove(t *transfer, b frame.RemoveBody) (any, error) {
	folder, base := path.Split(path.Clean(string(b.Path)))
	if base == "" || base == "." || base == ".." {
		return nil, fail(frame.Outside, "the workspace itself stays")
	}
	return struct{}{}, f.as(func() error {
		at, err := f.beneath("./"+folder, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer unix.Close(at)
		if b.All {
			return removeall.Tree(at, base, t.ctx.Err)
		}
		return removeall.One(at, base)
	})
}

// openFolder opens a folder, refusing a link.
func openFolder(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "folder"), nil
}
