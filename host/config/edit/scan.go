package edit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// span is a range of bytes of the text.
type span struct{ start, end int }

// statement is a table header or a key with its value. The text between statements is blank or a comment.
type statement struct {
	header bool
	list   bool     // a header of the form [[name]]
	path   []string // from the top of the file; an element of a list of tables is the segment "[0]"
	table  []string // for a pair: the path of the header above it
	whole  span     // its lines, with the line end and a comment on the last line
	key    span     // as written
	equals int      // position of "="
	value  span
	inline *inline // of a value that is an inline table
}

// inline is a table in braces.
type inline struct {
	path  []string
	whole span // with the braces
	pairs []inlinePair
}

type inlinePair struct {
	path  []string
	whole span // from the key to the end of the value
	value span
	table *inline
}

// scan finds the statements of a text, which must be valid TOML. For any other text the result is meaningless, but scan terminates.
func scan(src string) []statement {
	s := &scanner{src: src, elements: map[string]int{}}
	var found []statement
	var table []string
	for s.blank(); s.at < len(src); s.blank() {
		before := s.at
		start := strings.LastIndexByte(src[:s.at], '\n') + 1
		if start < s.done {
			start = s.at
		}
		var st statement
		if s.peek() == '[' {
			st = s.header()
			table = st.path
		} else {
			st = s.pair(table)
		}
		s.restOfLine()
		if s.at == before {
			s.at++
		}
		st.whole = span{start, s.at}
		s.done = s.at
		found = append(found, st)
	}
	return found
}

type scanner struct {
	src      string
	at       int
	done     int            // end of the last statement
	elements map[string]int // count of [[elements]] so far, by path
}

func (s *scanner) header() statement {
	list := strings.HasPrefix(s.src[s.at:], "[[")
	s.skip("[ \t")
	names := s.names()
	s.skip("] \t")
	var path []string
	for i, name := range names {
		path = append(slices.Clip(path), name)
		key := pathID(path)
		n := s.elements[key]
		if last := i == len(names)-1; list && last {
			s.elements[key]++
			path = append(slices.Clip(path), element(n))
		} else if n > 0 {
			path = append(slices.Clip(path), element(n-1))
		}
	}
	return statement{header: true, list: list, path: path}
}

func element(n int) string { return "[" + strconv.Itoa(n) + "]" }

func pathID(path []string) string { return strings.Join(path, "\x00") }

func (s *scanner) pair(table []string) statement {
	st := statement{table: table, key: span{start: s.at}}
	st.path = append(slices.Clip(table), s.names()...)
	st.key.end = len(strings.TrimRight(s.src[:s.at], " \t"))
	st.equals = s.at
	s.skip(" \t=")
	st.value.start = s.at
	st.inline = s.value(st.path)
	st.value.end = s.at
	return st
}

// names reads a dotted key.
func (s *scanner) names() []string {
	var names []string
	for {
		s.skip(" \t")
		names = append(names, s.name())
		s.skip(" \t")
		if s.peek() != '.' {
			return names
		}
		s.at++
	}
}

func (s *scanner) name() string {
	start := s.at
	switch s.peek() {
	case '"':
		s.quoted()
		var quoted struct{ Key string }
		_, _ = toml.Decode("key="+s.src[start:s.at], &quoted)
		return quoted.Key
	case '\'':
		s.quoted()
		return strings.Trim(s.src[start:s.at], "'")
	}
	for s.at < len(s.src) && !strings.ContainsRune(" \t\r\n.=]", rune(s.peek())) {
		s.at++
	}
	return s.src[start:s.at]
}

// value reads over a value, and returns its pairs if it is an inline table.
func (s *scanner) value(path []string) *inline {
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.list(path)
	case '{':
		return s.inline(path)
	default:
		start := s.at
		for s.at < len(s.src) && !strings.ContainsRune(",]}#\r\n", rune(s.peek())) {
			s.at++
		}
		s.at = start + len(strings.TrimRight(s.src[start:s.at], " \t"))
	}
	return nil
}

func (s *scanner) list(path []string) {
	for s.at++; ; {
		s.separators()
		if s.at >= len(s.src) || s.peek() == ']' {
			break
		}
		start := s.at
		s.value(path)
		if s.at == start {
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.src))
}

func (s *scanner) inline(path []string) *inline {
	t := &inline{path: path, whole: span{start: s.at}}
	for s.at++; ; {
		s.separators()
		if s.at >= len(s.src) || s.peek() == '}' {
			break
		}
		start := s.at
		p := s.pair(path)
		if s.at == start {
			s.at++
		}
		t.pairs = append(t.pairs, inlinePair{path: p.path, whole: span{start, s.at}, value: p.value, table: p.inline})
	}
	s.at = min(s.at+1, len(s.src))
	t.whole.end = s.at
	return t
}

// quoted reads over a string of any of the four kinds.
func (s *scanner) quoted() {
	quote := s.src[s.at : s.at+1]
	end := quote
	if strings.HasPrefix(s.src[s.at:], strings.Repeat(quote, 3)) {
		end = strings.Repeat(quote, 3)
	}
	s.at += len(end)
	for s.at < len(s.src) {
		switch {
		case quote == `"` && s.peek() == '\\':
			s.at = min(s.at+2, len(s.src))
		case strings.HasPrefix(s.src[s.at:], end):
			s.at += len(end)
			// A long string may end in up to two quotes before the three that close it.
			for len(end) == 3 && strings.HasPrefix(s.src[s.at:], quote) {
				s.at++
			}
			return
		default:
			s.at++
		}
	}
}

// blank skips white space, line ends and comments; separators skips commas as well.
func (s *scanner) blank()      { s.skipLines(" \t\r\n\ufeff") }
func (s *scanner) separators() { s.skipLines(" \t\r\n,") }

func (s *scanner) skipLines(set string) {
	for {
		s.skip(set)
		if s.peek() != '#' {
			return
		}
		for s.at < len(s.src) && s.peek() != '\n' {
			s.at++
		}
	}
}

// restOfLine skips white space, a comment and the line end.
func (s *scanner) restOfLine() {
	s.skip(" \t\r")
	if s.peek() == '#' {
		for s.at < len(s.src) && s.peek() != '\n' {
			s.at++
		}
	}
	if s.peek() == '\n' {
		s.at++
	}
}

func (s *scanner) skip(set string) {
	for s.at < len(s.src) && strings.IndexByte(set, s.src[s.at]) >= 0 {
		s.at++
	}
}

// peek is the byte at hand, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.src) {
		return 0
	}
	return s.src[s.at]
}
