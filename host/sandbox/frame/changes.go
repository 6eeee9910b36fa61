package frame

import (
	"bytes"
	"fmt"
	"path"
)

// Limits of a ChangesBody.
const (
	// MaxChanges bounds each of its lists.
	MaxChanges = 1000
	// MaxChangedPaths bounds the bytes of all its paths, so that a verdict fits into a frame.
	MaxChangedPaths = 96 << 10
)

// ChangesBody are the regular files and links that a command has touched, by their paths relative to the workspace, sorted.
type ChangesBody struct {
	Added    [][]byte `json:"added,omitempty"`
	Modified [][]byte `json:"modified,omitempty"`
	Deleted  [][]byte `json:"deleted,omitempty"`
	Partial  bool     `json:"partial,omitempty"`
	// Unread are folders that the command has left closed to its own user, so that what is in them is not known.
	Unread [][]byte `json:"unread,omitempty"`
}

// Check refuses what no supervisor would send: paths that are not clean, or lead out of the workspace.
func (c ChangesBody) Check() error {
	total := 0
	for _, list := range [][][]byte{c.Added, c.Modified, c.Deleted, c.Unread} {
		if len(list) > MaxChanges {
			return fmt.Errorf("%w: %d changed files", ErrProtocol, len(list))
		}
		for i, p := range list {
			total += len(p)
			if !local(p) || i > 0 && bytes.Compare(list[i-1], p) >= 0 {
				return fmt.Errorf("%w: changed file %.100q", ErrProtocol, p)
			}
		}
	}
	if total > MaxChangedPaths {
		return fmt.Errorf("%w: %d bytes of changed files", ErrProtocol, total)
	}
	return nil
}

// local reports whether a path names something below the folder that it is relative to, in the one way there is.
func local(p []byte) bool {
	name := string(p)
	return name != "" && len(name) <= MaxPath && bytes.IndexByte(p, 0) < 0 && path.Clean(name) == name &&
		!path.IsAbs(name) && name != "." && name != ".." && !bytes.HasPrefix(p, []byte("../"))
}
