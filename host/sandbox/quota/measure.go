package quota

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// Tree is what a folder takes on the disk with all that is in it, in bytes. What cannot be read does not count, and a file with
// several names counts once for each, in parts.
func Tree(root string) int64 {
	var bytes int64
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what can be seen is counted
		}
		info, err := d.Info()
		if err != nil {
			return nil // gone since
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += st.Blocks * 512 / max(int64(st.Nlink), 1)
		} else {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
