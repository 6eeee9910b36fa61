package wssync

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// sameEntry reports whether two records describe the same entry in the same state. The times of folders and links are ignored: a folder's
// changes with its entries, a link's is meaningless.
func sameEntry(a, b frame.Record) bool {
	if a.Type() != b.Type() || a.Size != b.Size || !bytes.Equal(a.Link, b.Link) {
		return false
	}
	switch a.Type() {
	case frame.TypeLink:
		return true
	case frame.TypeFolder:
		return a.Mode&0o777 == b.Mode&0o777
	}
	return a.Mode&0o777 == b.Mode&0o777 && a.Mtime == b.Mtime
}

// topmost returns the names for which such returns true, except those below another one of them.
func topmost(all map[string]frame.Record, such func(name string) bool) []string {
	var chosen []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if such(name) && !below(name, chosen) {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

func below(name string, folders []string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, is := slices.BinarySearch(folders, dir); is {
			return true
		}
	}
	return false
}

// wire returns the known state in the form that the supervisor parses. It sends the content of those files that are different, so of all that
// are in other.
func (c *Syncer) wire(other map[string]bool) []byte {
	var wire []byte
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		r := c.known[name]
		r.Bare = true
		if other[name] {
			r.Mtime = 0
		}
		wire = r.Append(wire)
	}
	return wire
}

// recall reads the state at the end of the last synchronisation, by this host or the one before it. It reports whether there was any.
func (c *Syncer) recall() bool {
	if c.known != nil {
		return true
	}
	f, err := os.Open(c.memory)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("cannot read the last known state of a workspace", "error", err)
		}
		return false
	}
	defer f.Close()
	volume := c.volume
	if _, err := io.ReadFull(f, volume[:]); err != nil || volume != c.volume {
		return false
	}
	known, newest := make(map[string]frame.Record), int64(0)
	in := frame.NewRecordReader(f)
	for {
		r, err := in.Next()
		if err == io.EOF {
			c.known, c.unsettled = known, unsettled(known, newest) // the time is not stored
			return true
		}
		if err != nil {
			c.log.Warn("cannot read the last known state of a workspace", "error", err)
			return false
		}
		known[string(r.Path)], newest = r, max(newest, r.Mtime)
	}
}

// knows reports whether a state is the last one that both sides had.
func (c *Syncer) knows(now map[string]frame.Record) bool {
	return c.known != nil && maps.EqualFunc(c.known, now, func(a, b frame.Record) bool { return sameEntry(a, b) && a.Mtime == b.Mtime })
}

// tick is more than the unit in which kernels count the times of files.
const tick = 20 * time.Millisecond

// unsettled returns the files that were changed so shortly before they were copied that another change may leave size and time as they are.
func unsettled(now map[string]frame.Record, began int64) map[string]bool {
	names := make(map[string]bool)
	for name, r := range now {
		if r.Type() == frame.TypeFile && r.Mtime > began-int64(tick) && r.Mtime < began+int64(timeout) {
			names[name] = true
		}
	}
	return names
}

// remember stores the state that both sides have. If it were lost, the host's state would win at the next launch.
func (c *Syncer) remember(now map[string]frame.Record, began int64) error {
	known, settled := c.knows(now), len(c.unsettled) == 0
	c.known, c.unsettled = now, unsettled(now, began)
	if known && settled && len(c.unsettled) == 0 {
		return nil
	}
	return durable.WriteFile(c.memory, slices.Concat(c.volume[:], c.wire(nil)), 0o600)
}
