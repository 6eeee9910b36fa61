package plugin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/filelock"
	"github.com/flynnhost/flynn/host/internal/fileowner"
)

// maxSocket is the longest path of a unix socket on every supported system, in bytes.
const maxSocket = 103

// socketTail is what go-plugin adds to the run folder: /plugin-dirNNNNNNNNNN/pluginNNNNNNNNNN.
const socketTail = 2 + len(socketDirs) + len("plugin") + 2*10

// socketDirs is the prefix of the folders that go-plugin creates for sockets, one for each process.
const socketDirs = "plugin-dir"

// claimRunDir locks the run folder, and removes the files and processes that a killed host left.
func claimRunDir(dir string, log *slog.Logger) (release func(), err error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("prepare the plugin run folder: %q is not absolute", dir)
	}
	if len(dir)+socketTail > maxSocket {
		return nil, fmt.Errorf("prepare the plugin run folder: %s has %d bytes, which leaves no room for a socket's name: choose one of at most %d",
			dir, len(dir), maxSocket-socketTail)
	}
	unlock, err := lockRunDir(dir)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("prepare the plugin run folder: another host uses %s: stop it or choose another folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the plugin run folder: %w", err)
	}
	if err := sweep(dir, log); err != nil {
		unlock()
		return nil, fmt.Errorf("sweep the plugin run folder: %w", err)
	}
	return func() {
		if isDefaultRunDir(dir) {
			if err := os.RemoveAll(dir); err != nil { // while it is locked, so that it belongs to no other host
				log.Warn("cannot remove the plugin run folder", "error", err)
			}
		}
		unlock()
	}, nil
}

// SocketDir creates a folder for a socket of the caller, which can be granted to plugins. It waits for the run folder and creates the folder
// there, so that a later start removes it if this process is killed. Call it once Run has been called, and remove the folder before Run
// ends.
func (h *Host) SocketDir() (string, error) {
	<-h.claimed
	if h.claimErr != nil {
		return "", h.claimErr
	}
	return os.MkdirTemp(h.config.RunDir, socketDirs)
}

// isDefaultRunDir reports whether a folder has a name from defaultRunDir, for this user.
func isDefaultRunDir(dir string) bool {
	sum, ok := strings.CutPrefix(filepath.Base(dir), fmt.Sprintf("flynn-%d-", os.Getuid()))
	if !ok {
		sum, ok = strings.CutPrefix(filepath.Base(dir), "flynn-")
	}
	_, err := hex.DecodeString(sum)
	return ok && err == nil && len(sum) == 8
}

// deadRunDirs calls each with the run folders of this user's killed hosts beside dir, while it holds their locks.
func deadRunDirs(dir string, each func(sibling string)) {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "flynn-*"))
	for _, sibling := range found {
		lock := filepath.Join(sibling, runLock)
		if sibling == dir || privateDir(sibling) != nil {
			continue
		}
		if _, err := os.Lstat(lock); err != nil {
			continue // not a run folder
		}
		release, err := filelock.Try(lock)
		if err != nil {
			continue // its host is running
		}
		each(sibling)
		release()
	}
}

// sweepSiblings removes the run folders of killed hosts beside dir, and ends the processes that their plugins left running, as the next start
// of each of them would.
func sweepSiblings(dir string, log *slog.Logger) {
	if !isDefaultRunDir(dir) {
		return
	}
	deadRunDirs(dir, func(sibling string) {
		if !isDefaultRunDir(sibling) {
			return
		}
		err := sweep(sibling, log)
		if err == nil {
			err = os.RemoveAll(sibling)
		}
		if err != nil {
			log.Warn("cannot remove the run folder of a killed flynn", "folder", sibling, "error", err)
		}
	})
}

// privateDir refuses a folder that belongs to another user, or that others can read.
func privateDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if uid, ok := fileowner.Of(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", dir, uid)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %v): run chmod 700 on it", dir, info.Mode().Perm())
	}
	return nil
}

// lockTime is how long a host waits for the lock of its run folder, which another host may hold for a moment in deadRunDirs.
const lockTime = time.Second

func lockRunDir(dir string) (release func(), err error) {
	for late := time.Now().Add(lockTime); ; time.Sleep(lockTime / 50) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = privateDir(dir)
		}
		if err == nil {
			release, err = filelock.Try(filepath.Join(dir, runLock))
		}
		again := errors.Is(err, filelock.ErrHeld) || errors.Is(err, fs.ErrNotExist) // it was removed in between
		if !again || time.Now().After(late) {
			return release, err
		}
	}
}

// runLock is the file in a run folder that its host locks as long as it runs.
const runLock = "lock"

// sweep ends the processes that an earlier host left running, and removes its socket folders. The caller holds the lock of the run folder.
func sweep(dir string, log *slog.Logger) error {
	old, err := filepath.Glob(filepath.Join(dir, socketDirs+"*"))
	if len(old) > 0 {
		if n := endStrays(dir); n > 0 {
			log.Warn("ended processes left by the plugins of a killed flynn", "count", n)
		}
	}
	for _, name := range old {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}
