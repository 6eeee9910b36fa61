//go:build unix

// Package fileowner returns the user id that owns a file, on systems that have such ids.
package fileowner

import (
	"io/fs"
	"syscall"
)

// Of returns the id of the user who owns a file. It reports false on systems without such ids.
func Of(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
