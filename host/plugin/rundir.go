package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// maxSocket is the longest path that a unix socket can have on every system that we run on, in bytes.
const maxSocket = 103

// socketTail is what go-plugin adds to the run folder: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 2 + len("plugin-dir") + len("plugin") + 2*10

// claimRunDir makes the folder for sockets ours, alone, and sweeps what a killed host left in it.
func claimRunDir(dir string) (release func(), err error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("prepare the plugin run folder: %q is not absolute", dir)
	}
	if len(dir)+socketTail > maxSocket {
		return nil, fmt.Errorf("prepare the plugin run folder: %s has %d bytes, which leaves no room for a socket's name: choose one of at most %d",
			dir, len(dir), maxSocket-socketTail)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare the plugin run folder: %w", err)
	}
	if err := privateDir(dir); err != nil {
		return nil, fmt.Errorf("prepare the plugin run folder: %w", err)
	}
	release, err = flock(filepath.Join(dir, "lock"), false)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("prepare the plugin run folder: another host uses %s: stop it or choose another folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the plugin run folder: %w", err)
	}
	if err := sweep(dir); err != nil {
		release()
		return nil, fmt.Errorf("sweep the plugin run folder: %w", err)
	}
	return release, nil
}

// privateDir refuses a folder that somebody else prepared or may look into.
func privateDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if uid, ok := owner(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", dir, uid)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %v): run chmod 700 on it", dir, info.Mode().Perm())
	}
	return nil
}

// sweep removes the socket folders of earlier hosts; the lock says that they are gone.
func sweep(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "plugin-dir*"))
	for _, name := range old {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
