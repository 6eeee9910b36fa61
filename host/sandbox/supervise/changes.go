//go:build linux

package supervise

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// The limits of a fingerprint: entries, bytes of paths, and time. A larger workspace is covered in part.
	printEntries = 50_000
	printPaths   = 4 << 20
	printTime    = time.Second
	// printClosed bounds the unreadable folders that are remembered.
	printClosed = 100
	// keptPrints bounds the memory for the fingerprints of all running background commands. The changes of further ones are not known.
	keptPrints = 16 << 20
)

// tracker takes fingerprints of the workspace. Its walks have their own thread, so that no file request waits for one.
type tracker struct {
	files *files
	seed  maphash.Seed
	kept  atomic.Int64 // bytes of fingerprints kept for background commands
}

func newTracker(h frame.HelloBody) (*tracker, error) {
	files, err := openFiles(h, nil) // it writes nothing
	return &tracker{files: files, seed: maphash.MakeSeed()}, err
}

// fingerprint describes all regular files and links at one time, sorted by path.
type fingerprint struct {
	entries []printed
	paths   []byte
	closed  [][]byte // folders that are not readable, sorted
	cut     bool
}

// printed is one entry: its path lies in the fingerprint's paths, and marks is a digest of its marks.
type printed struct {
	at, size uint32
	marks    uint64
}

// marks are attributes that a change of a file cannot leave unchanged: only the kernel sets a ctime.
type marks struct {
	ino          uint64
	size         int64
	mtime, ctime unix.Timespec
}

func (p *fingerprint) path(e printed) []byte { return p.paths[e.at : e.at+e.size] }

// look takes a fingerprint.
func (t *tracker) look() *fingerprint {
	p := new(fingerprint)
	w := survey{skip: stateDir, deadline: time.Now().Add(printTime)}
	w.see = func(folder []byte, name string, st *unix.Stat_t) bool {
		kind := st.Mode & unix.S_IFMT
		if kind != unix.S_IFREG && kind != unix.S_IFLNK {
			return w.seen < printEntries
		}
		size := len(folder) + len(name)
		if w.seen >= printEntries || len(p.paths)+size > printPaths {
			return false
		}
		p.entries = append(p.entries, printed{
			at: uint32(len(p.paths)), size: uint32(size),
			marks: maphash.Comparable(t.seed, marks{st.Ino, st.Size, st.Mtim, st.Ctim}),
		})
		p.paths = append(append(p.paths, folder...), name...)
		return true
	}
	w.closed = func(folder []byte) bool {
		p.closed = append(p.closed, bytes.Clone(folder))
		return len(p.closed) <= printClosed
	}
	_ = t.files.as(func() error { w.run(t.files.root); return nil })
	p.cut = w.cut
	slices.SortFunc(p.entries, func(a, b printed) int { return bytes.Compare(p.path(a), p.path(b)) })
	slices.SortFunc(p.closed, bytes.Compare)
	return p
}

// lookAndKeep is look for a background command; pass the fingerprint to drop in the end. It returns nil if there is no room for it.
func (t *tracker) lookAndKeep() *fingerprint {
	p := t.look()
	if t.kept.Add(p.size()) > keptPrints {
		t.drop(p)
		return nil
	}
	return p
}

func (t *tracker) drop(p *fingerprint) { t.kept.Add(-p.size()) }

// size returns the memory that a fingerprint takes.
func (p *fingerprint) size() int64 {
	return int64(cap(p.paths)) + int64(cap(p.entries))*int64(unsafe.Sizeof(printed{}))
}

// hides reports whether a path lies in a folder that could not be read.
func (p *fingerprint) hides(path []byte) bool {
	return slices.ContainsFunc(p.closed, func(folder []byte) bool {
		return len(path) > len(folder) && path[len(folder)] == '/' && bytes.HasPrefix(path, folder)
	})
}

// changes compares two fingerprints. If the workspace was covered in part, only files in both fingerprints are reported: a file that was
// not covered before need not be new.
func changes(before, after *fingerprint) *frame.ChangesBody {
	c := report{ChangesBody: frame.ChangesBody{Partial: before.cut || after.cut}}
	whole := !c.Partial
	for i, j := 0, 0; i < len(before.entries) || j < len(after.entries); {
		order := 1
		switch {
		case j == len(after.entries):
			order = -1
		case i < len(before.entries):
			order = bytes.Compare(before.path(before.entries[i]), after.path(after.entries[j]))
		}
		switch {
		case order < 0:
			if path := before.path(before.entries[i]); whole && !after.hides(path) {
				c.add(&c.Deleted, path)
			}
			i++
		case order > 0:
			if path := after.path(after.entries[j]); whole && !before.hides(path) {
				c.add(&c.Added, path)
			}
			j++
		default:
			if before.entries[i].marks != after.entries[j].marks {
				c.add(&c.Modified, after.path(after.entries[j]))
			}
			i, j = i+1, j+1
		}
	}
	for _, folder := range after.closed {
		if _, was := slices.BinarySearchFunc(before.closed, folder, bytes.Compare); !was {
			c.add(&c.Unread, folder)
		}
	}
	return &c.ChangesBody
}

// report builds a ChangesBody within its limits.
type report struct {
	frame.ChangesBody
	bytes int
}

func (r *report) add(list *[][]byte, path []byte) {
	if len(*list) >= frame.MaxChanges || r.bytes+len(path) > frame.MaxChangedPaths || len(path) > frame.MaxPath {
		r.Partial = true
		return
	}
	r.bytes += len(path)
	*list = append(*list, bytes.Clone(path))
}
