//go:build linux

package supervise

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxOpenFiles is the limit of open files of each process inside. Not every engine sets one.
const maxOpenFiles = 1024

// limitOpenFiles limits the open files of this process and of all that it starts.
func limitOpenFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit open files: %w", err)
	}
	limit.Max = min(limit.Max, maxOpenFiles)
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit open files: %w", err)
	}
	return nil
}
