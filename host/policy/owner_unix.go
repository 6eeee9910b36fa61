//go:build unix

package policy

import (
	"io/fs"
	"os"
	"syscall"
)

// mine reports whether the file belongs to the user that runs this.
func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
