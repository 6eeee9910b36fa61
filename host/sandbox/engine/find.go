package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// defaultSocket is that of Docker, and of what stands in for it.
const defaultSocket = "/var/run/docker.sock"

// Engines that are not addresses.
const (
	Auto   = "auto"   // what answers: an engine at a usual address, else Native
	Native = "native" // none: this machine makes sandboxes itself
)

// DriverPrefix begins the name of a plugin's driver, as in "driver:podman".
const DriverPrefix = "driver:"

// Default returns the address of the engine of this computer if none is configured: the first of the system's usual sockets that exists.
// home is the user's home folder. The default of Docker's own client comes first.
func Default(home string) string {
	return "unix://" + first(append([]string{defaultSocket}, sockets(home)...), isSocket)
}

// Usual returns the addresses of the usual sockets that exist, in the order of Default, which is the only one if none exists.
func Usual(home string) []string {
	var found []string
	for _, path := range append([]string{defaultSocket}, sockets(home)...) {
		if address := "unix://" + path; isSocket(path) && !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	if len(found) == 0 {
		return []string{Default(home)}
	}
	return found
}

// first returns the first existing path, or the first of all.
func first(paths []string, exists func(string) bool) string {
	for _, path := range paths {
		if exists(path) {
			return path
		}
	}
	return paths[0]
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// macSockets are the sockets of engines for macOS, each of which runs in a virtual machine of its user: Docker Desktop, OrbStack, Colima,
// Rancher Desktop, and Podman.
func macSockets(home string) []string {
	if !filepath.IsAbs(home) {
		return nil
	}
	var paths []string
	for _, name := range []string{
		".docker/run/docker.sock", ".orbstack/run/docker.sock", ".colima/default/docker.sock", ".config/colima/default/docker.sock", ".rd/docker.sock",
		".local/share/containers/podman/machine/podman.sock",
	} {
		paths = append(paths, filepath.Join(home, name))
	}
	return paths
}
