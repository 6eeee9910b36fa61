package markdown

import (
	"regexp"
	"strings"
	"sync"
)

// container is a quote or a list item that contains a line.
type container struct {
	quote  bool
	indent int // column of an item's text
}

// fenceMark is the line that opens a block of code.
type fenceMark struct {
	open  int // number of its line
	char  byte
	count int
	info  string
}

// sourceLine is a line of Markdown and its containers.
type sourceLine struct {
	start, end int         // of its text, without the line break
	stack      []container // its containers; the first matched ones were open before
	matched    int
	offsets    []int      // offsets[i] is where its text begins after i containers
	fence      *fenceMark // of the block of code that contains it, including its closing line
	closes     bool       // it is the closing line
	opens      bool       // it opens a block of code
	table      int        // number of the head's line if it is a row of a table's body, or -1
}

func (l sourceLine) content() int { return l.offsets[len(l.offsets)-1] }

// scan finds the structure of blocks that a cut has to preserve. It is the first phase of parsing CommonMark.
func scan(source string) []sourceLine {
	var lines []sourceLine
	var stack []container
	var fence *fenceMark
	for start := 0; start < len(source); {
		end := start + strings.IndexByte(source[start:]+"\n", '\n')
		l := sourceLine{start: start, end: end, offsets: []int{start}, table: -1}
		l.match(source, stack)
		if l.matched < len(stack) {
			fence = nil
		}
		text := source[l.content():end]
		switch {
		case fence != nil:
			l.fence, l.closes = fence, fence.closedBy(text)
			if l.closes {
				fence = nil
			}
		default:
			l.open(source)
			fence = openFence(source[l.content():end], len(lines))
			l.opens = fence != nil
			l.row(source, lines)
		}
		stack = l.stack
		lines = append(lines, l)
		start = end + 1
	}
	return lines
}

// match matches the containers that were open before.
func (l *sourceLine) match(source string, stack []container) {
	for _, c := range stack {
		pos := l.content()
		text := source[pos:l.end]
		n, ok := 0, false
		if c.quote {
			n, ok = quoteMark(text)
		} else {
			n, ok = indentation(text, c.indent)
		}
		if !ok {
			return
		}
		l.stack, l.matched = append(l.stack, c), l.matched+1
		l.offsets = append(l.offsets, pos+n)
	}
}

// open finds the containers that the line opens.
func (l *sourceLine) open(source string) {
	for len(l.stack) < 2*maxDepth {
		pos := l.content()
		text := source[pos:l.end]
		c := container{quote: true}
		n, ok := quoteMark(text)
		if !ok {
			n, ok = itemMark(text)
			c = container{indent: n}
		}
		if !ok {
			return
		}
		l.stack, l.offsets = append(l.stack, c), append(l.offsets, pos+min(n, len(text)))
	}
}

var delimiterRow = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
})

// row determines whether the line is a row of a table.
func (l *sourceLine) row(source string, before []sourceLine) {
	n := len(before)
	if n == 0 || l.opens || len(l.stack) != len(before[n-1].stack) || strings.TrimSpace(source[l.content():l.end]) == "" {
		return
	}
	if l.table = before[n-1].table; l.table >= 0 || n < 2 {
		return
	}
	head, rule := before[n-2], before[n-1]
	if len(head.stack) == len(rule.stack) && strings.Contains(source[head.content():head.end], "|") &&
		strings.Contains(source[rule.content():rule.end], "-") && delimiterRow().MatchString(source[rule.content():rule.end]) {
		l.table = n - 2
	}
}

// quoteMark returns the length of a quote's mark.
func quoteMark(text string) (int, bool) {
	rest := strings.TrimLeft(text, " ")
	n := len(text) - len(rest)
	if n > 3 || !strings.HasPrefix(rest, ">") {
		return 0, false
	}
	if strings.HasPrefix(rest, "> ") {
		return n + 2, true
	}
	return n + 1, true
}

// indentation returns the bytes of the given columns of space. An empty line counts as indented.
func indentation(text string, columns int) (int, bool) {
	if strings.TrimSpace(text) == "" {
		return len(text), true
	}
	n := 0
	for column := 0; column < columns; n++ {
		switch text[n] {
		case ' ':
			column++
		case '\t':
			column += 4 - column%4
		default:
			return 0, false
		}
	}
	return n, true
}

var (
	itemStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ {0,3}([-+*]|[0-9]{1,9}[.)])( +|\t|$)`) })
	ruler     = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^ {0,3}((\*[ \t]*){3,}|(-[ \t]*){3,}|(_[ \t]*){3,})$`)
	})
)

// itemMark returns the columns of a list item's mark and the space after it.
func itemMark(text string) (int, bool) {
	m := itemStart().FindStringSubmatch(text)
	if m == nil || ruler().MatchString(text) {
		return 0, false
	}
	if n := len(m[2]); n > 4 || len(m[0]) == len(text) {
		return len(m[0]) - n + 1, true
	}
	return len(m[0]), true
}

// openFence parses the line that opens a block of code.
func openFence(text string, number int) *fenceMark {
	rest := strings.TrimLeft(text, " ")
	if len(text)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return nil
	}
	info := strings.TrimLeft(rest, rest[:1])
	f := &fenceMark{open: number, char: rest[0], count: len(rest) - len(info), info: strings.TrimSpace(info)}
	if f.count < 3 || f.char == '`' && strings.Contains(info, "`") {
		return nil
	}
	return f
}

func (f *fenceMark) closedBy(text string) bool {
	rest := strings.TrimLeft(text, " ")
	marks := strings.TrimRight(rest, " \t")
	return len(text)-len(rest) <= 3 && len(marks) >= f.count && strings.Trim(marks, string(f.char)) == ""
}

func (f *fenceMark) String() string { return strings.Repeat(string(f.char), f.count) }
