package config

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// locate finds the line of every key of a file. The file must be valid TOML, which the decoder has checked; that gives
// no positions. For any other text the result is meaningless, but locate terminates.
func locate(src string) *positions {
	l := &locator{src: src, line: 1, found: &positions{keys: map[string]position{}}, elements: map[string]int{}}
	l.file()
	return l.found
}

// locator walks over the text once. It knows just enough of TOML to tell keys from values.
type locator struct {
	src      string
	at       int
	line     int
	found    *positions
	elements map[string]int // number of [[elements]] so far, by path
}

func (l *locator) file() {
	var table keyPath
	for l.blank(); l.at < len(l.src); l.blank() {
		start := l.at
		if l.src[l.at] == '[' {
			table = l.header()
		} else {
			l.pair(table)
		}
		if l.at == start {
			l.next() // not TOML
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the path of its keys.
func (l *locator) header() keyPath {
	line := l.line
	list := strings.HasPrefix(l.src[l.at:], "[[")
	l.skip("[ \t")
	names := l.key()
	l.skip("] \t")
	var path keyPath
	for i, name := range names {
		path = path.child(name)
		n := l.elements[path.String()]
		if list && i == len(names)-1 {
			l.elements[path.String()]++
			l.mark(path, line)
			path = path.index(n)
		} else if n > 0 {
			path = path.index(n - 1)
		}
		l.mark(path, line)
	}
	return path
}

// pair reads key = value.
func (l *locator) pair(table keyPath) {
	line := l.line
	path := table
	for _, name := range l.key() {
		path = path.child(name)
		l.mark(path, line)
	}
	l.skip(" \t=")
	l.value(path)
}

// key reads a dotted key.
func (l *locator) key() []string {
	var names []string
	for {
		l.skip(" \t")
		names = append(names, l.name())
		l.skip(" \t")
		if l.peek() != '.' {
			return names
		}
		l.next()
	}
}

func (l *locator) name() string {
	start := l.at
	switch l.peek() {
	case '"':
		l.quoted()
		raw := l.src[start:l.at]
		if !strings.Contains(raw, `\`) {
			return strings.Trim(raw, `"`)
		}
		var escaped struct{ Key string }
		_, _ = toml.Decode("key="+raw, &escaped)
		return escaped.Key
	case '\'':
		l.quoted()
		return strings.Trim(l.src[start:l.at], "'")
	}
	for l.at < len(l.src) && !strings.ContainsRune(" \t\r\n.=]", rune(l.peek())) {
		l.next()
	}
	return l.src[start:l.at]
}

// value reads over a value and marks the keys and elements within it.
func (l *locator) value(path keyPath) {
	switch l.peek() {
	case '"', '\'':
		l.quoted()
	case '[':
		l.list(path)
	case '{':
		l.inline(path)
	default:
		for l.at < len(l.src) && !strings.ContainsRune(",]}#\n", rune(l.peek())) {
			l.next()
		}
	}
}

func (l *locator) list(path keyPath) {
	l.next()
	for i := 0; ; i++ {
		l.separators()
		if l.at >= len(l.src) || l.peek() == ']' {
			break
		}
		start := l.at
		l.mark(path.index(i), l.line)
		l.value(path.index(i))
		if l.at == start {
			l.next()
		}
	}
	l.next()
}

func (l *locator) inline(path keyPath) {
	l.next()
	for {
		l.separators()
		if l.at >= len(l.src) || l.peek() == '}' {
			break
		}
		start := l.at
		l.pair(path)
		if l.at == start {
			l.next()
		}
	}
	l.next()
}

// quoted reads over a string of any of the four kinds.
func (l *locator) quoted() {
	quote := l.src[l.at : l.at+1]
	escapes := quote == `"`
	end := quote
	if strings.HasPrefix(l.src[l.at:], strings.Repeat(quote, 3)) {
		end = strings.Repeat(quote, 3)
	}
	l.forward(len(end))
	for l.at < len(l.src) {
		switch {
		case escapes && l.peek() == '\\':
			l.forward(2)
		case strings.HasPrefix(l.src[l.at:], end):
			l.forward(len(end))
			// A long string may end in up to two quotes before the three that close it.
			for len(end) == 3 && strings.HasPrefix(l.src[l.at:], quote) {
				l.next()
			}
			return
		default:
			l.next()
		}
	}
}

// blank skips white space, line ends and comments; separators skips commas as well.
func (l *locator) blank()      { l.skipLines(" \t\r\n\ufeff") }
func (l *locator) separators() { l.skipLines(" \t\r\n,") }

func (l *locator) skipLines(set string) {
	for {
		l.skip(set)
		if l.peek() != '#' {
			return
		}
		for l.at < len(l.src) && l.peek() != '\n' {
			l.next()
		}
	}
}

func (l *locator) skip(set string) {
	for l.at < len(l.src) && strings.IndexByte(set, l.peek()) >= 0 {
		l.next()
	}
}

func (l *locator) mark(path keyPath, line int) {
	if !l.found.has(path) {
		l.found.keys[path.String()] = position{line: line, order: len(l.found.keys) + 1}
	}
}

// peek is the byte at hand, or 0 at the end.
func (l *locator) peek() byte {
	if l.at >= len(l.src) {
		return 0
	}
	return l.src[l.at]
}

func (l *locator) next() { l.forward(1) }

func (l *locator) forward(n int) {
	for ; n > 0 && l.at < len(l.src); n-- {
		if l.src[l.at] == '\n' {
			l.line++
		}
		l.at++
	}
}
