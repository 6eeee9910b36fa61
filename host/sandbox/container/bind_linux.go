package container

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// bind listens through the folder's descriptor, because the path of a socket must be short.
func bind(folder string) (*net.UnixListener, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), controlName)
	return net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
}
