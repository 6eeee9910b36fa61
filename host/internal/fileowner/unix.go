//go:build unix

// Package fileowner says to whom a file belongs, on systems where a file belongs to a user with a number.
package fileowner

import (
	"io/fs"
	"syscall"
)

// Of returns the user that a file belongs to. It reports false where users have no numbers.
func Of(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
