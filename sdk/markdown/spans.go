package markdown

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// span is a stretch of the source to which a mark applies.
type span struct {
	start, stop int    // of the text inside the mark
	mark        string // empty for a link, which is only kept together
}

// maxOpen bounds the marks that a piece repeats.
const maxOpen = 6

// spans finds the marks of a source, the outer ones first.
func spans(source []byte) []span {
	f := &spanFinder{source: source}
	f.find(parse(source))
	slices.SortStableFunc(f.found, func(a, b span) int { return a.start - b.start })
	return f.found
}

type spanFinder struct {
	source []byte
	found  []span
}

// find returns the stretch that a node covers, with its marks; start is -1 if it covers nothing.
func (f *spanFinder) find(n ast.Node) (start, stop int) {
	if t, ok := n.(*ast.Text); ok {
		return t.Segment.Start, t.Segment.Stop
	}
	start = -1
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if from, to := f.find(c); from >= 0 {
			if start < 0 {
				start = from
			}
			stop = max(stop, to)
		}
	}
	if start < 0 {
		return -1, 0
	}
	switch n := n.(type) {
	case *ast.Emphasis:
		return f.add(start, stop, n.Level, "*_")
	case *extast.Strikethrough:
		level := 1
		if start > 1 && f.source[start-2] == '~' {
			level = 2
		}
		return f.add(start, stop, level, "~")
	case *ast.CodeSpan:
		if start > 1 && f.source[start-1] == ' ' {
			start--
		}
		if stop < len(f.source) && f.source[stop] == ' ' {
			stop++
		}
		level := 0
		for start-level > 0 && f.source[start-level-1] == '`' {
			level++
		}
		return f.add(start, stop, level, "`")
	case *ast.Link, *ast.Image:
		if end := strings.IndexByte(string(f.source[stop:min(len(f.source), stop+2048)]), ')'); end >= 0 && f.source[stop] == ']' {
			stop += end + 1
		}
		f.found = append(f.found, span{start: start, stop: stop})
	}
	return start, stop
}

// add records a span with adjacent marks of level characters.
func (f *spanFinder) add(start, stop, level int, of string) (int, int) {
	if level > 0 && start >= level && stop+level <= len(f.source) && strings.IndexByte(of, f.source[start-1]) >= 0 {
		f.found = append(f.found, span{start, stop, string(f.source[start-level : start])})
	}
	return start - level, stop + level
}

// marksAt returns the marks to reopen after a cut, and to close before it. whole reports whether a link or code would be cut.
func marksAt(all []span, at int) (open, closing string, whole bool) {
	n := 0
	for _, s := range all {
		if s.start >= at {
			break
		}
		if at >= s.stop {
			continue
		}
		whole = whole || s.mark == "" || s.mark[0] == '`'
		if n < maxOpen && !strings.HasPrefix(closing, "`") {
			open, closing = open+s.mark, s.mark+closing
			n++
		}
	}
	return open, closing, whole
}
