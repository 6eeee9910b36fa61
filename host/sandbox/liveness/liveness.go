// Package liveness lets the processes of one instance on one machine know which of them live. Each keeps a file locked, so
// that the kernel takes the lock back when the process ends; what else carries the name of a process that is gone
// belongs to nobody.
//
// Start with Join. Nothing here is about other machines, or about what the processes share.
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
	// tries bounds the attempts to make a file that nobody takes for a dead process's meanwhile.
	tries = 100
)

// Join marks this process as one that lives, in the folder that the processes share.
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
	return nil, errors.New("mark this process: somebody removes the mark again and again")
}

// newID is fit for the names of files, and has no hyphen.
func newID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}

// ID is the name of this process, and of no other one that lives.
func (m *Member) ID() string { return m.id }

// Place names where the processes of the instance can see each other. A store that was copied, to another folder or another
// machine, has the instance's name in two places, and who lives in one cannot be told in the other.
func (m *Member) Place() string { return m.place }

// placeOf stays the same for a folder that is moved on its disk.
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

// lock reports whether nobody else holds the file.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

// isThere reports whether the file is still the one with its name.
func (m *Member) isThere() bool {
	mine, err := m.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(m.path(m.id))
	return err == nil && os.SameFile(mine, named)
}

// Leave takes the mark back.
func (m *Member) Leave() {
	os.Remove(m.path(m.id))
	m.file.Close()
}

// Others are the names of the other processes that live. The marks of dead ones are removed.
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
			continue // gone since
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
