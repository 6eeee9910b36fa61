//go:build linux

package supervise

import "golang.org/x/sys/unix"

// openScratch lets everybody write to folders in memory, each in their own name, as in any /tmp. The engine was asked for that,
// but some runtimes give what they mount the mode of the image's folder at that place. What cannot be changed stays as it is: a
// command that needs the folder says so. No command runs yet, so nothing is swapped between the look and the change.
func openScratch(folders [][]byte) {
	for _, folder := range folders {
		var fs unix.Statfs_t
		if unix.Statfs(string(folder), &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			_ = unix.Chmod(string(folder), 0o1777)
		}
	}
}
