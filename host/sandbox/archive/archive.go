// Package archive converts archives from untrusted sources into the records that a supervisor unpacks, and a supervisor's records into an
// archive.
//
// Neither side is trusted. Repack reads a tar, a tar.gz or a zip and passes on the entries that are within Limits and safe to unpack
// anywhere: no name leads upwards or through a link, no link leads out, and no name occurs twice. Reader passes on only records that a
// folder can hold, because the supervisor may have been taken over. TarWriter writes them as a tar.
//
// Start with Repack in repack.go; tree.go checks that the entries fit together, and source.go decides whether an error is the archive's
// fault. Except for a temporary copy of a zip, the package writes no files: package supervise does.
package archive

import (
	"cmp"
	"errors"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Limits bound an uploaded archive. Zero fields stand for the defaults.
type Limits struct {
	Bytes   int64 // of all entries together, unpacked; 1 GiB by default
	Entry   int64 // of one entry, unpacked; 256 MiB by default
	Entries int   // including folders; 100,000 by default
	// Ratio is the largest ratio of unpacked to packed size, checked once more than 1 MiB is unpacked; 100 by default.
	Ratio int64
	// Packed bounds the archive itself; 1 GiB by default.
	Packed int64
	// Hooks admits files in .git/hooks, which git runs.
	Hooks bool
}

func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, 1<<30)
	l.Entry = cmp.Or(l.Entry, 256<<20)
	l.Entries = cmp.Or(l.Entries, 100_000)
	l.Ratio = cmp.Or(l.Ratio, 100)
	l.Packed = cmp.Or(l.Packed, 1<<30)
	return l
}

// ErrRefused is wrapped by the errors about a refused archive.
var ErrRefused = errors.New("archive is refused")

// Tally counts what was packed or unpacked.
type Tally struct {
	Files   int64 `json:"files"` // including further names of the same file
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"`
	// Skipped counts the entries left out: special files, unreadable files and git hooks.
	Skipped int64 `json:"skipped"`
	// Left lists the first of the skipped entries.
	Left []Left `json:"left_out,omitempty"`
	// Torn counts files that shrank while they were packed; they are padded with zeros.
	Torn int64 `json:"torn,omitempty"`
}

// Left is an entry that was left out.
type Left struct {
	Path string `json:"path"`
	Why  Why    `json:"why"`
}

// Why is the reason for which an entry is left out.
type Why string

// The reasons.
const (
	Hook    Why = "hook of git"
	Special Why = "special file"
	Closed  Why = "closed to its own user"
)

// maxLeft bounds the entries listed in Tally.Left.
const maxLeft = 20

// Leave counts an entry as left out.
func (t *Tally) Leave(path string, why Why) {
	t.Skipped++
	if len(t.Left) < maxLeft {
		t.Left = append(t.Left, Left{path, why})
	}
}

// Count adds a record.
func (t *Tally) Count(r frame.Record) {
	switch r.Type() {
	case frame.TypeFolder:
		t.Folders++
	case frame.TypeLink:
		t.Links++
	default:
		t.Files++
		t.Bytes += r.Size
	}
}
