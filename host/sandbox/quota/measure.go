package quota

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// Tree returns the disk usage of a folder and everything in it, in bytes. Unreadable entries do not count, and each name of a file with
// several counts an equal part.
func Tree(root string) int64 {
	var bytes int64
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what is readable is counted
		}
		info, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
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
