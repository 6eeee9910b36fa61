package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Recover puts back the workspaces whose move to a container was interrupted by a crash. Call it before anybody uses a workspace below
// root.
func Recover(root string) error { return recoverMoves(hostFolders{}, root, "") }

// recoverMoves does this for one workspace, waiting for a move by another process, or for all if name is empty.
func recoverMoves(f folders, root, name string) error {
	all, err := journal(root)
	for _, m := range all {
		if name != "" && name != filepath.Base(m.workspace) {
			continue
		}
		m.folders = f
		back := m.recover()
		for deadline := time.Now().Add(seizeTimeout); name != "" && errors.Is(back, errBusy) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
			back = m.recover()
		}
		if back != nil && !(name == "" && errors.Is(back, errBusy)) {
			err = errors.Join(err, fmt.Errorf("put workspace %s back: %w", filepath.Base(m.workspace), back))
		}
	}
	return err
}

// journal returns the moves that are in progress or were interrupted.
func journal(root string) ([]move, error) {
	names, err := entries(filepath.Join(root, returningFolder), -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []move
	for _, name := range names {
		if part := strings.Split(name, "."); len(part) == 3 {
			all = append(all, newMove(nil, filepath.Join(root, part[0]), filepath.Join(root, "."+part[1], part[2])))
		}
	}
	return all, err
}

// recover puts back a workspace that nobody is moving any more.
func (m move) recover() error {
	seized, err := seize(m.returning)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the move has finished
	}
	if err != nil {
		return err
	}
	defer seized.Close()
	if mine, err := seized.Stat(); err != nil || !isFolder(m.returning, mine) {
		return err
	}
	return m.putBack()
}

// isFolder reports whether a path names that folder.
func isFolder(path string, folder fs.FileInfo) bool {
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(named, folder)
}

// seizeTimeout bounds the wait for a move by another process.
const seizeTimeout = 5 * time.Second

// errBusy means that a folder is being moved.
var errBusy = errors.New("it is being moved by another process")

// seize locks a folder against moves by others, until the file is closed or the process ends.
func seize(folder string) (*os.File, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return dir, nil
	}
	dir.Close()
	return nil, errBusy
}
