package edit

import (
	"slices"
	"strings"
)

// removeKey cuts every statement that sets the key or something below it.
func removeKey(src string, key []string) string {
	all := scan(src)
	for _, st := range all {
		if at, ok := pairIn(src, st.inline, key); ok {
			return splice(src, at, "")
		}
	}
	var cuts []span
	for i := 0; i < len(all); i++ {
		switch st := all[i]; {
		case !hasPrefix(st.path, key):
		case !st.header:
			cuts = append(cuts, st.whole)
		default:
			last := st
			for i+1 < len(all) && (!all[i+1].header || hasPrefix(all[i+1].path, key)) {
				i++
				last = all[i]
			}
			cuts = append(cuts, wholeTable(src, span{withComment(src, st.whole.start), last.whole.end}))
		}
	}
	for _, c := range slices.Backward(cuts) {
		src = splice(src, c, "")
	}
	return src
}

// pairIn finds a pair of an inline table, with the comma that goes with it.
func pairIn(src string, t *inline, key []string) (span, bool) {
	if t == nil {
		return span{}, false
	}
	for i, p := range t.pairs {
		if at, ok := pairIn(src, p.table, key); ok {
			return at, true
		}
		switch {
		case !slices.Equal(p.path, key):
		case i > 0:
			return span{t.pairs[i-1].whole.end, p.whole.end}, true
		case len(t.pairs) > 1:
			return span{p.whole.start, t.pairs[1].whole.start}, true
		default:
			return p.whole, true
		}
	}
	return span{}, false
}

// withComment returns the start of the comment lines directly above a line.
func withComment(src string, start int) int {
	for start > 0 {
		above := strings.LastIndexByte(src[:start-1], '\n') + 1
		if !strings.HasPrefix(strings.TrimLeft(src[above:start], " \t"), "#") {
			break
		}
		start = above
	}
	return start
}

// wholeTable adds one of the blank lines around a table to it, so that none are left over.
func wholeTable(src string, at span) span {
	after := src[at.end:]
	line, _, found := strings.Cut(after, "\n")
	if found && strings.TrimSpace(line) == "" {
		at.end += len(line) + 1
		return at
	}
	if after == "" && at.start > 0 {
		if above := strings.LastIndexByte(src[:at.start-1], '\n') + 1; strings.TrimSpace(src[above:at.start]) == "" {
			at.start = above
		}
	}
	return at
}
