package engine

import (
	"os"
	"path/filepath"
	"strconv"
)

// sockets returns those of Podman, which speaks Docker's API: that of the user, and that of the system.
func sockets(string) (paths []string) {
	for _, folder := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(os.Getuid()), "/run"} {
		if filepath.IsAbs(folder) {
			paths = append(paths, filepath.Join(folder, "podman", "podman.sock"))
		}
	}
	return paths
}
