package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// presence tells the other processes of the instance on this machine that this one lives: a file that it keeps locked, so
// that the kernel takes it back whatever becomes of the process. Containers, lanes and slots carry the
// process's name, and belong to nobody once it is gone.
type presence struct {
	id   string
	run  string
	file *os.File
}

const (
	presencePrefix = "host-"
	presenceSuffix = ".lock"
	// presenceTries bounds the attempts to make a file that nobody takes for a dead process's meanwhile.
	presenceTries = 100
)

func appear(run string) (*presence, error) {
	for range presenceTries {
		p := &presence{id: random()[:8], run: run}
		f, err := os.OpenFile(p.path(p.id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("mark this process: %w", err)
		}
		p.file = f
		if lock(f) && p.isThere() {
			return p, nil
		}
		f.Close()
	}
	return nil, errors.New("mark this process: somebody removes the mark again and again")
}

func (p *presence) path(id string) string {
	return filepath.Join(p.run, presencePrefix+id+presenceSuffix)
}

// lock says whether nobody else holds the file.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

// isThere says whether the file is still the one with its name.
func (p *presence) isThere() bool {
	mine, err := p.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(p.path(p.id))
	return err == nil && os.SameFile(mine, named)
}

// vanish takes the mark back.
func (p *presence) vanish() {
	os.Remove(p.path(p.id))
	p.file.Close()
}

// others are the other processes that live. The marks of dead ones are removed.
func (p *presence) others() (map[string]bool, error) {
	marks, err := filepath.Glob(p.path("*"))
	alive := make(map[string]bool)
	for _, mark := range marks {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(mark), presencePrefix), presenceSuffix)
		if id == p.id {
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
