//go:build linux

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openSocket raw|packet
func openSocket(args []string) (answer, error) {
	kinds := map[string][3]int{
		"raw":    {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0},
	}
	if len(args) != 1 || kinds[args[0]] == [3]int{} {
		return answer{}, errors.New("needs raw or packet")
	}
	k := kinds[args[0]]
	fd, err := unix.Socket(k[0], k[1]|unix.SOCK_CLOEXEC, k[2])
	if err == nil {
		unix.Close(fd)
	}
	return judge(args[0]+" socket", err), nil
}

// findSockets FOLDER... connects to every socket below the folders.
func findSockets(roots []string) (answer, error) {
	var reached []string
	seen := 0
	visit := func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil:
			return nil
		case path == "/proc", path == "/sys":
			return fs.SkipDir
		case d.IsDir() || !isSocket(d):
			return nil
		}
		seen++
		if dial(path) {
			reached = append(reached, path)
		}
		return nil
	}
	for _, root := range roots {
		if err := filepath.WalkDir(root, visit); err != nil {
			return answer{}, err
		}
	}
	if len(reached) > 0 {
		return breach("sockets answer: %s", strings.Join(reached, " ")), nil
	}
	return held("none of %d sockets answers", seen), nil
}

// isSocket looks at the file itself: the entry of the folder does not show what is mounted over it.
func isSocket(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// findAbstract connects to every abstract socket of the network namespace.
func findAbstract([]string) (answer, error) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return held("%v", err), nil
	}
	var reached []string
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@") && dial(f[7]) {
			reached = append(reached, f[7])
		}
	}
	if len(reached) > 0 {
		return breach("abstract sockets answer: %s", strings.Join(reached, " ")), nil
	}
	return held("no abstract socket answers"), nil
}

func dial(path string) bool {
	conn, err := net.DialTimeout("unix", path, patience)
	if err == nil {
		conn.Close()
	}
	return err == nil
}
