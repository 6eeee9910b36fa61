//go:build linux

package supervise

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// A fingerprint covers so many entries and bytes of paths, and takes so long. A larger workspace is seen in part.
	printEntries = 50_000
	printPaths   = 4 << 20
	printTime    = time.Second
)

// tracker takes fingerprints of the workspace. Its walks have a thread of their own, so that no file request waits for one.
type tracker struct {
	files *files
	seed  maphash.Seed
}

func newTracker(h frame.HelloBody) (*tracker, error) {
	files, err := openFiles(h)
	return &tracker{files: files, seed: maphash.MakeSeed()}, err
}

// fingerprint is what there was at one time: regular files and links, sorted by path.
type fingerprint struct {
	entries []printed
	paths   []byte
	cut     bool
}

// printed is one entry: its path lies in the fingerprint's paths, and marks is a digest of what changes when it does.
type printed struct {
	at, size uint32
	marks    uint64
}

// marks are what a change of a file cannot leave alone: nothing but the kernel sets a ctime.
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
	_ = t.files.as(func() error { w.run(t.files.root); return nil })
	p.cut = w.cut
	slices.SortFunc(p.entries, func(a, b printed) int { return bytes.Compare(p.path(a), p.path(b)) })
	return p
}

// changes compares two fingerprints. Of a workspace that was seen in part, only those files are told of that were seen both
// times: whether one that was not seen is new, nobody knows.
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
			if whole {
				c.add(&c.Deleted, before.path(before.entries[i]))
			}
			i++
		case order > 0:
			if whole {
				c.add(&c.Added, after.path(after.entries[j]))
			}
			j++
		default:
			if before.entries[i].marks != after.entries[j].marks {
				c.add(&c.Modified, after.path(after.entries[j]))
			}
			i, j = i+1, j+1
		}
	}
	return &c.ChangesBody
}

// report is a ChangesBody being made within its bounds.
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
