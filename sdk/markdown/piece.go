package markdown

import (
	"regexp"
	"strings"
	"sync"
)

// piece returns the source from a to b as separate Markdown.
func (s *splitter) piece(a, b int) string {
	var out strings.Builder
	first, last := s.line(a), s.line(max(a, b-1))
	base := s.base(a, first)
	prefix := quotes(base)
	s.reopen(&out, a, first, prefix)
	for i := first; i <= last; i++ {
		l := s.lines[i]
		from, to := l.start, min(l.end, b)
		if i == first {
			from = max(a, l.start)
		}
		if from == l.start && len(base) > 0 {
			if shared := min(len(base), l.matched); shared < len(base) {
				base = base[:shared]
				prefix = quotes(base)
			}
			from = l.offsets[len(base)]
		}
		if i > first {
			out.WriteByte('\n')
		}
		if i > first || from > a || len(base) > 0 {
			out.WriteString(prefix)
		}
		s.text(&out, a, b, i, min(from, to), to)
	}
	if l := s.lines[last]; l.fence != nil && !(l.closes && b >= l.end) || l.opens && last+1 < len(s.lines) {
		fence := l.fence
		if fence == nil {
			fence = s.lines[last+1].fence
		}
		if fence != nil {
			out.WriteString("\n" + prefix + fence.String())
		}
	}
	return strings.Trim(out.String(), "\n")
}

// base returns the containers at the beginning of a piece. Lists are not among them: their items continue as paragraphs.
func (s *splitter) base(a, first int) []container {
	l := s.lines[first]
	switch {
	case a == 0:
		return nil
	case a <= l.start:
		return l.stack[:l.matched]
	}
	return l.stack
}

// quotes writes the quotes among containers.
func quotes(list []container) string {
	n := 0
	for _, c := range list {
		if c.quote {
			n++
		}
	}
	return strings.Repeat("> ", n)
}

// reopen repeats what a block needs at its beginning.
func (s *splitter) reopen(out *strings.Builder, a, first int, prefix string) {
	l := s.lines[first]
	switch {
	case l.fence != nil && !l.closes:
		out.WriteString(prefix + l.fence.String() + l.fence.info + "\n")
	case l.table >= 0 && a <= l.start:
		for _, row := range s.lines[l.table : l.table+2] {
			if row.end-row.start > s.limit/4 {
				return
			}
		}
		for _, row := range s.lines[l.table : l.table+2] {
			out.WriteString(prefix + s.source[row.content():row.end] + "\n")
		}
	}
}

// text writes the text of a line, with the marks that are open at the ends of the piece.
func (s *splitter) text(out *strings.Builder, a, b, i, from, to int) {
	l, text := s.lines[i], s.source[from:to]
	if l.fence != nil || l.opens {
		out.WriteString(text)
		return
	}
	if a > 0 && from >= a && s.line(a) == i && (a > l.start || s.continues(i)) {
		text = strings.TrimLeft(text, " \t")
		open, _, _ := marksAt(s.spans, a)
		if open == "" && a > l.start {
			text = harmless(text)
		}
		text = open + text
	}
	if s.line(b-1) == i {
		_, closing, _ := marksAt(s.spans, b)
		text = strings.TrimRight(text, " \t") + closing
	}
	out.WriteString(text)
}

// continues reports whether a line continues the paragraph of the line before.
func (s *splitter) continues(i int) bool {
	if i == 0 || len(s.lines[i].stack) != s.lines[i].matched {
		return false
	}
	before := s.lines[i-1]
	text := s.source[before.content():before.end]
	return before.fence == nil && strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "    ")
}

var blockStart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(#{1,6}(?:\s|$)|[-+*](?:\s|$)|>|` + "```|~~~" + `|=+\s*$|-+\s*$)`)
})

var numberStart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,9})([.)](?:\s|$))`) })

// harmless escapes text at the beginning of a line that would be read as the beginning of a block.
func harmless(text string) string {
	if blockStart().MatchString(text) {
		return `\` + text
	}
	return numberStart().ReplaceAllString(text, `$1\$2`)
}
