//go:build linux

package supervise

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// nameless returns the size of the files without a name that the workload's processes keep open on a file system: deleted files, and those
// that never had a name. It runs with the workload's identity, for which the kernel shows what its processes have open. It misses the files
// of a process that has made itself untraceable, files that are only mapped, and those on their way through a socket.
func nameless(dev uint64) (bytes int64) {
	seen := map[uint64]bool{}
	for _, pid := range namesIn("/proc") {
		if n, err := strconv.Atoi(pid); err != nil || n == os.Getpid() {
			continue
		}
		folder := "/proc/" + pid + "/fd"
		for _, fd := range namesIn(folder) {
			var st unix.Stat_t
			if unix.Stat(folder+"/"+fd, &st) != nil || st.Nlink > 0 || st.Dev != dev || seen[st.Ino] {
				continue
			}
			seen[st.Ino] = true
			bytes += st.Blocks * 512
		}
	}
	return bytes
}

// namesIn returns the names in a folder, as far as they can be read.
func namesIn(folder string) []string {
	f, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
