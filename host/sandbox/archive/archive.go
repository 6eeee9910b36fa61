// Package archive turns the archives that strangers give into the records that a supervisor unpacks, and a supervisor's
// records into an archive.
//
// Neither side is believed. Repack reads a tar, a tar.gz or a zip, and lets through what is within Limits and harmless
// wherever it is unpacked: no name leads upwards or through a link, no link leads out, and none stands for two things.
// Reader lets through what a folder can hold of the records of a supervisor, which may have been taken over. TarWriter
// makes a tar of them.
//
// Start with Repack in repack.go; tree.go says which entries fit together, source.go whose fault an error is. Nothing here
// makes a file of what it reads, but for a zip's own: that is for the supervisor (package supervise).
package archive

import (
	"cmp"
	"errors"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Limits bound an archive that somebody gave. Zero fields stand for the defaults.
type Limits struct {
	Bytes   int64 // of all entries together, unpacked. 1 GiB
	Entry   int64 // of one entry, unpacked. 256 MiB
	Entries int   // with folders. 100,000
	// Ratio is how many times larger than packed the whole may be, once it is larger than 1 MiB. 100
	Ratio int64
	// Packed bounds the archive itself. 1 GiB
	Packed int64
	// Hooks lets in what lies in .git/hooks, which git runs.
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

// ErrRefused is wrapped by the error about an archive that is refused.
var ErrRefused = errors.New("archive is refused")

// Tally counts what was packed or unpacked.
type Tally struct {
	Files   int64 `json:"files"` // with further names of one
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"`
	// Skipped counts what was left out: special files, what could not be read, and hooks of git.
	Skipped int64 `json:"skipped"`
	// Left names the first of these.
	Left []Left `json:"left_out,omitempty"`
	// Torn counts files that became shorter while they were packed; zeros stand for the rest.
	Torn int64 `json:"torn,omitempty"`
}

// Left is an entry that was left out.
type Left struct {
	Path string `json:"path"`
	Why  Why    `json:"why"`
}

// Why says for what reason an entry is left out.
type Why string

// The reasons.
const (
	Hook    Why = "hook of git"
	Special Why = "special file"
	Closed  Why = "closed to its own user"
)

// maxLeft bounds the entries that are named.
const maxLeft = 20

// Leave counts an entry that is left out.
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
