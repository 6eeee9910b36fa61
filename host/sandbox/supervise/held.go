//go:build linux

package supervise

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// openHeld makes the folder for what commands must not change ours alone to write to. As with openScratch, some runtimes give it
// another mode than the engine was asked for.
func openHeld() {
	var fs unix.Statfs_t
	if unix.Statfs(frame.HeldFolder, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		_ = unix.Chmod(frame.HeldFolder, 0o755)
	}
}

// hold writes a file that commands can read, and neither change nor replace: it and the folders above it are root's.
func (t *transfer) hold(b frame.WriteBody) error {
	name := string(b.Path)
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
		return fail(frame.Outside, "path leaves the folder")
	}
	full := path.Join(frame.HeldFolder, name)
	if err := os.MkdirAll(path.Dir(full), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o444)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.CopyBuffer(onlyWriter{file}, onlyReader{t}, make([]byte, frame.MaxData))
	if err == nil && b.Size >= 0 && n != b.Size {
		err = fmt.Errorf("received %d bytes of %d", n, b.Size)
	}
	return err
}
