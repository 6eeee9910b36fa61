//go:build linux

package supervise

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// spillAfter is how much output is kept in memory before a file is created.
	spillAfter = 64 << 10
	// spillMost bounds one command's file, spillAll all those of a workspace: above it the oldest are removed.
	spillMost = 64 << 20
	spillAll  = 256 << 20
	// spillFiles bounds how many names of the folder are checked.
	spillFiles = 10_000
)

// spills are the files of a workspace with the complete output of commands.
type spills struct {
	files *files

	mu   sync.Mutex
	open map[int]bool // numbers in use: each file may still grow to spillMost
}

func newSpills(f *files) *spills { return &spills{files: f, open: make(map[int]bool)} }

// spill keeps one command's output from the first byte on, both streams in the order of arrival.
type spill struct {
	owner *spills

	mu     sync.Mutex
	early  []byte   // until there is a file
	file   *os.File // may be nil
	number int
	size   int64
	broken bool // nothing more can be kept
}

// add appends the next bytes of a stream.
func (s *spill) add(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil && !s.broken {
		if s.early = append(s.early, p...); len(s.early) > spillAfter {
			s.begin()
		}
		return
	}
	s.write(p)
}

// begin creates the file and writes the earlier output. s.mu is held.
func (s *spill) begin() {
	file, number, err := s.owner.create()
	if err != nil {
		s.broken, s.early = true, nil
		return
	}
	s.file, s.number = file, number
	s.write(s.early)
	s.early = nil
}

// write needs no identity, because the file is open. s.mu is held.
func (s *spill) write(p []byte) {
	p = p[:min(int64(len(p)), spillMost-s.size)]
	if s.broken || len(p) == 0 {
		return
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	s.broken = err != nil // the disk is full; the earlier output stays
}

// finish closes the file and returns its number. If need is false nothing is kept, and the number is 0.
func (s *spill) finish(need bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if need && s.file == nil && !s.broken {
		s.begin()
	}
	if s.file == nil {
		return 0
	}
	s.file.Close()
	s.owner.release(s.number, need)
	if !need {
		return 0
	}
	return s.number
}

// create makes room for a new file and opens it. Everything happens with the workload's identity, in a folder to which no link leads.
func (s *spills) create() (*os.File, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var file *os.File
	number := 0
	err := s.files.as(func() error {
		folder, err := s.folder(true)
		if err != nil {
			return err
		}
		defer unix.Close(folder)
		if number, err = s.makeRoom(folder); err != nil {
			return err
		}
		fd, err := unix.Openat(folder, spillName(number), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), "spill")
		return nil
	})
	if err == nil {
		s.open[number] = true
	}
	return file, number, err
}

// release frees a file's number, and removes the file unless keep is set.
func (s *spills) release(number int, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, number)
	if keep {
		return
	}
	_ = s.files.as(func() error {
		folder, err := s.folder(false)
		if err != nil {
			return err
		}
		defer unix.Close(folder)
		return unix.Unlinkat(folder, spillName(number), 0)
	})
}

// folder opens the folder of the files.
func (s *spills) folder(create bool) (int, error) {
	at := s.files.root
	for _, part := range strings.Split(frame.SpillDir, "/") {
		if create {
			if err := unix.Mkdirat(at, part, 0o755); err != nil && err != unix.EEXIST {
				return s.leave(at, err)
			}
		}
		next, err := unix.Openat(at, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return s.leave(at, err)
		}
		_, _ = s.leave(at, nil)
		at = next
	}
	return at, nil
}

func (s *spills) leave(at int, err error) (int, error) {
	if at != s.files.root {
		unix.Close(at)
	}
	return -1, err
}

// spilled is an existing file.
type spilled struct {
	number int
	size   int64
}

// makeRoom removes the oldest files until there is room for another one, and returns its number.
func (s *spills) makeRoom(folder int) (int, error) {
	there, err := s.list(folder)
	if err != nil {
		return 0, err
	}
	total, last := int64(spillMost), 0
	for _, f := range there {
		total += f.size
		last = max(last, f.number)
	}
	for _, f := range there {
		if total <= spillAll {
			break
		}
		if f.size > 0 && !s.open[f.number] && unix.Unlinkat(folder, spillName(f.number), 0) == nil {
			total -= f.size
		}
	}
	if total > spillAll {
		return 0, unix.ENOSPC
	}
	if last < frame.MaxSpill {
		return last + 1, nil
	}
	return free(there), nil
}

// free returns the smallest number that no file has: a command may have used the largest possible one.
func free(there []spilled) int {
	number := 1
	for _, f := range there {
		if f.number == number {
			number++
		}
	}
	return number
}

// list returns the files, oldest first.
func (s *spills) list(folder int) ([]spilled, error) {
	fd, err := unix.FcntlInt(uintptr(folder), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), "folder")
	defer dir.Close()
	names, _ := dir.Readdirnames(spillFiles) // anything beyond that was put here by commands
	var there []spilled
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimSuffix(name, ".log"))
		var st unix.Stat_t
		if err != nil || number <= 0 || number > frame.MaxSpill || name != spillName(number) ||
			unix.Fstatat(folder, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		f := spilled{number, 0} // of anything but a file only the name matters
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			f.size = min(st.Size, spillAll+1) // a sparse file may be of any size
		}
		if s.open[number] {
			f.size = spillMost
		}
		there = append(there, f)
	}
	slices.SortFunc(there, func(a, b spilled) int { return cmp.Compare(a.number, b.number) })
	return there, nil
}

func spillName(number int) string { return strconv.Itoa(number) + ".log" }
