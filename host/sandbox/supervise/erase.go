//go:build linux

package supervise

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxDepth bounds how deep folders are gone through; each level costs a descriptor.
const maxDepth = 200

// remove removes a file, a link as such, or a folder.
func (f *files) remove(_ *transfer, body []byte) (any, error) {
	var b frame.RemoveBody
	if err := frame.Decode(body, &b); err != nil {
		return nil, err
	}
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
			return erase(at, base, 0)
		}
		return removeOne(at, base)
	})
}

// removeOne removes anything but a folder that is not empty.
func removeOne(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	return err
}

// erase removes an entry with everything in it. It follows no link, whatever takes a folder's place meanwhile.
func erase(at int, name string, depth int) error {
	err := removeOne(at, name)
	if err != unix.ENOTEMPTY && err != unix.EEXIST {
		return err
	}
	if depth >= maxDepth {
		return fail(frame.TooLarge, fmt.Sprintf("folders are more than %d deep", maxDepth))
	}
	dir, err := openFolder(at, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, _ := dir.Readdirnames(someNames)
		if len(names) == 0 {
			return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		}
		for _, inner := range names {
			if err := erase(int(dir.Fd()), inner, depth+1); err != nil && err != unix.ENOENT {
				return err
			}
		}
	}
}

// someNames is how many names of a folder are read at a time.
const someNames = 1000

// openFolder opens a folder that must be none but itself.
func openFolder(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "folder"), nil
}
