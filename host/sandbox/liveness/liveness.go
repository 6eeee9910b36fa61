// Package liveness lets the processes of one instance on one machine know which of them are alive. Each holds a lock on a file, which the
// kernel releases when the process ends; a container that carries the name of a dead process belongs to nobody.
//
// Start with Join. The package covers neither other machines nor what the processes share.
package liveness

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Member is this process among the others.
type Member struct {
	id     string
	place  string
	folder string
	file   *os.File
}

const (
	markPrefix = "host-"
	markSuffix = ".lock"
	// tries bounds the attempts to create a file that no other process removes as that of a dead one.
	tries = 100
)

// Join marks this process as alive in the folder that the processes share.
func Join(folder string) (*Member, error) {
	place, err := placeOf(folder)
	if err != nil {
		return nil, err
	}
	for range tries {
		m := &Member{id: newID(), place: place, folder: folder}
		f, err := os.OpenFile(m.path(m.id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("mark this process: %w", err)
		}
		m.file = f
		if lock(f) && m.isThere() {
			return m, nil
		}
		f.Close()
	}
	return nil, errors.New("mark this process: another process keeps removing the mark")
}

// newID returns a random id for file names, without a hyphen.
func newID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails; see its documentation
	return hex.EncodeToString(b[:])
}

// ID returns the id of this process, which is unique among the living ones.
func (m *Member) ID() string { return m.id }

// Place names the environment in which the instance's processes can see each other. If a store was copied to another folder or machine, two
// places share the instance's name, and neither can tell which processes of the other are alive.
func (m *Member) Place() string { return m.place }

// placeOf returns the same place for a folder that is moved on its disk.
func placeOf(folder string) (string, error) {
	var about syscall.Stat_t
	if err := syscall.Stat(folder, &about); err != nil {
		return "", fmt.Errorf("mark this process: %w", err)
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not every system has one
	sum := sha256.Sum256(fmt.Appendf(machine, " %d", about.Ino))
	return hex.EncodeToString(sum[:6]), nil
}

func (m *Member) path(id string) string {
	return filepath.Join(m.folder, markPrefix+id+markSuffix)
}

// lock locks the file and reports whether nobody else holds the lock.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

// isThere reports whether the open file is still the one with this name.
func (m *Member) isThere() bool {
	mine, err := m.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(m.path(m.id))
	return err == nil && os.SameFile(mine, named)
}

// Leave removes the mark.
func (m *Member) Leave() {
	os.Remove(m.path(m.id))
	m.file.Close()
}

// Others returns the ids of the other living processes, and removes the marks of dead ones.
func (m *Member) Others() (map[string]bool, error) {
	marks, err := filepath.Glob(m.path("*"))
	alive := make(map[string]bool)
	for _, mark := range marks {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(mark), markPrefix), markSuffix)
		if id == m.id {
			continue
		}
		f, err := os.OpenFile(mark, os.O_RDWR, 0)
		if err != nil {
			continue // removed meanwhile
		}
		if lock(f) {
			os.Remove(mark)
		} else {
			alive[id] = true
		}
		f.Close()
	}
	return alive, err
}
