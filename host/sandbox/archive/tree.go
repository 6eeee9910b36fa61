package archive

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// tree records the entries of an archive as they arrive and refuses one that conflicts with those before it, so that no accepted path leads
// through a link and no name occurs twice.
type tree struct {
	fold  bool // treat names that differ only in case as equal, as some file systems do, and refuse the second
	max   int  // bound of the entries, including implied parent folders
	depth int
	nodes map[string]node
}

type node struct {
	name string
	kind uint32 // as in frame.Record
}

func newTree(max, depth int, fold bool) *tree {
	return &tree{fold: fold, max: max, depth: depth, nodes: make(map[string]node)}
}

// add records an entry with its parents.
func (t *tree) add(name string, kind uint32) error {
	if err := frame.CheckName(name); err != nil {
		return err
	}
	if n := strings.Count(name, "/"); n >= t.depth {
		return fmt.Errorf("the name has more than %d parts", t.depth)
	}
	for i, r := range name {
		if r == '/' {
			if err := t.enter(name[:i], frame.TypeFolder); err != nil {
				return err
			}
		}
	}
	return t.enter(name, kind)
}

func (t *tree) enter(name string, kind uint32) error {
	key := name
	if t.fold {
		key = fold(name)
	}
	old, is := t.nodes[key]
	switch {
	case !is && len(t.nodes) >= t.max:
		return fmt.Errorf("more than %d entries", t.max)
	case !is:
		t.nodes[key] = node{name, kind}
		return nil
	case old.name != name:
		return fmt.Errorf("the name differs from %.80q only in case", old.name)
	case old.kind != frame.TypeFolder || kind != frame.TypeFolder:
		return fmt.Errorf("the name stands for two entries")
	}
	return nil
}

// fold maps names that differ only in case to the same string.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// isFile reports whether an earlier entry of exactly this name is a regular file.
func (t *tree) isFile(name string) bool {
	key := name
	if t.fold {
		key = fold(name)
	}
	old := t.nodes[key]
	return old.name == name && old.kind == frame.TypeFile
}

// checkLink refuses a symbolic link that leads out of the archive's folder. Dots may stand only at the start of the target: the link's
// parents are real folders, so dots there mean what they seem to; behind another link they might not.
func checkLink(name, target string) error {
	if target == "" || len(target) > frame.MaxPath || strings.ContainsRune(target, 0) {
		return fmt.Errorf("the link's target is malformed")
	}
	if path.IsAbs(target) {
		return fmt.Errorf("the link leads to the absolute path %.80q", target)
	}
	above := strings.Count(name, "/")
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if above--; above < 0 || down {
				return fmt.Errorf("the link leads to %.80q, which is outside or may be", target)
			}
		default:
			down = true
		}
	}
	return nil
}
