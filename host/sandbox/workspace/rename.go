package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Rename gives the workspace of a session to another one, which has none as a rule; otherwise it becomes the folder "earlier-NAME" in
// that one's. One that is not there is no error: it was renamed before.
func Rename(root, was, now string) error {
	from, to := Path(root, was), Path(root, now)
	if _, err := os.Lstat(to); err == nil {
		to = filepath.Join(to, "earlier-"+filepath.Base(from))
	}
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
