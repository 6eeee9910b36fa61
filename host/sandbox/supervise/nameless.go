//go:build linux

package supervise

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// nameless is what the workload's processes keep open of a file system without a name in it, in bytes: files that were deleted, and those
// that never had a name. It runs with the workload's identity, by which the kernel shows what its processes have open; one that has made
// itself untraceable shows nothing, and a file that is only mapped, or on its way through a socket, is not seen.
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

// namesIn are the names in a folder, as far as they can be read.
func namesIn(folder string) []string {
	f, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
