package edit

import (
	"slices"
	"strings"
)

// setValue replaces the value of a key, or writes the key where it belongs.
func setValue(src string, key []string, value any) (string, error) {
	text, err := encode(value)
	if err != nil {
		return "", err
	}
	all := scan(src)
	for _, st := range all {
		if st.header {
			continue
		}
		if slices.Equal(st.path, key) {
			return splice(src, st.value, text), nil
		}
		if at, ok := valueIn(st.inline, key); ok {
			return splice(src, at, text), nil
		}
	}
	for depth := len(key) - 1; depth >= 0; depth-- {
		around, rest := key[:depth], key[depth:]
		if t := inlineOf(all, around); t != nil {
			return intoInline(src, t, writeKey(rest...)+" = "+text), nil
		}
		if last, table, ok := section(all, around, depth == len(key)-1); ok {
			return afterPair(src, all, last, writeKey(key[len(table):]...), text), nil
		}
	}
	if len(key) == 1 {
		return atTop(src, all, key[0], text), nil
	}
	return newTable(src, all, key[:len(key)-1], Table{key[len(key)-1]: value}, false)
}

// valueIn finds the value of a key in an inline table.
func valueIn(t *inline, key []string) (span, bool) {
	if t == nil {
		return span{}, false
	}
	for _, p := range t.pairs {
		if slices.Equal(p.path, key) {
			return p.value, true
		}
		if at, ok := valueIn(p.table, key); ok {
			return at, true
		}
	}
	return span{}, false
}

// inlineOf finds the inline table of a path.
func inlineOf(all []statement, path []string) *inline {
	for _, st := range all {
		if t := inlineBelow(st.inline, path); t != nil {
			return t
		}
	}
	return nil
}

func inlineBelow(t *inline, path []string) *inline {
	if t == nil || slices.Equal(t.path, path) {
		return t
	}
	for _, p := range t.pairs {
		if found := inlineBelow(p.table, path); found != nil {
			return found
		}
	}
	return nil
}

// section returns the statement after which a key of the table at path is written, and the path of the header above it. The table is one
// with a header of its own (if that counts), or one that dotted keys make.
func section(all []statement, path []string, headers bool) (last statement, table []string, ok bool) {
	for _, st := range all {
		switch {
		case !st.header && len(st.path) > len(path) && len(st.table) < len(path) && hasPrefix(st.path, path), // a dotted key
			!st.header && headers && len(path) > 0 && slices.Equal(st.table, path),
			!st.header && headers && len(path) == 0 && len(st.table) == 0,
			st.header && headers && slices.Equal(st.path, path):
			last, table, ok = st, st.table, true
			if st.header {
				table = st.path
			}
		}
	}
	return last, table, ok
}

// afterPair writes a pair on a line of its own after a statement, with its indentation and alignment.
func afterPair(src string, all []statement, st statement, key, value string) string {
	line := src[st.whole.start:st.whole.end]
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if width := column(all, st); !st.header && len(key) < width {
		key += strings.Repeat(" ", width-len(key))
	}
	return insert(src, st.whole.end, indent+key+" = "+value+newline(src))
}

// column returns the width of the keys in the table of a pair if they are aligned, or 0.
func column(all []statement, st statement) int {
	for _, other := range all {
		if width := other.equals - other.key.start - 1; !other.header && slices.Equal(other.table, st.table) && other.key.end-other.key.start < width {
			return width
		}
	}
	return 0
}

// atTop writes the first pair before all tables.
func atTop(src string, all []statement, key, value string) string {
	line := writeKey(key) + " = " + value + newline(src)
	if len(all) == 0 {
		return insert(src, len(src), line)
	}
	return insert(src, withComment(src, all[0].whole.start), line+newline(src))
}

// intoInline writes a pair at the end of an inline table.
func intoInline(src string, t *inline, pair string) string {
	if n := len(t.pairs); n > 0 {
		return splice(src, span{t.pairs[n-1].whole.end, t.pairs[n-1].whole.end}, ", "+pair)
	}
	return splice(src, t.whole, "{ "+pair+" }")
}

// addTable writes a table with a header of its own.
func addTable(src string, key []string, table Table, list bool) (string, error) {
	all := scan(src)
	if !list {
		for depth := len(key) - 1; depth > 0; depth-- {
			if t := inlineOf(all, key[:depth]); t != nil {
				text, err := encode(table)
				return intoInline(src, t, writeKey(key[depth:]...)+" = "+text), err
			}
		}
	}
	return newTable(src, all, key, table, list)
}

// newTable writes a table after the last one of the same section, or at the end.
func newTable(src string, all []statement, key []string, table Table, list bool) (string, error) {
	nl := newline(src)
	header := "[" + writeHeader(key) + "]"
	if list {
		header = "[" + header + "]"
	}
	lines := header + nl
	for _, name := range keysOf(table) {
		text, err := encode(table[name])
		if err != nil {
			return "", err
		}
		lines += writeKey(name) + " = " + text + nl
	}
	at := len(src)
	for _, st := range all {
		if len(st.path) > 0 && st.path[0] == key[0] && (st.header || len(st.table) > 0) {
			at = st.whole.end
		}
	}
	if strings.TrimSpace(src[:at]) != "" {
		lines = nl + lines
	}
	if rest := src[at:]; rest != "" && !strings.HasPrefix(strings.TrimLeft(rest, " \t\r"), "\n") {
		lines += nl
	}
	if at == len(src) && strings.HasSuffix(src, nl+nl) {
		lines = strings.TrimPrefix(lines, nl)
	}
	return insert(src, at, lines), nil
}

// writeHeader is a key of a header, in which the number of an element does not stand: the last element is meant.
func writeHeader(key []string) string {
	return writeKey(slices.DeleteFunc(slices.Clone(key), func(s string) bool { return strings.HasPrefix(s, "[") })...)
}

// insert puts lines into the text, after the end of a line.
func insert(src string, at int, lines string) string {
	if at > 0 && src[at-1] != '\n' && src[:at] != "\ufeff" {
		lines = newline(src) + lines
	}
	return src[:at] + lines + src[at:]
}

func splice(src string, at span, text string) string { return src[:at.start] + text + src[at.end:] }
