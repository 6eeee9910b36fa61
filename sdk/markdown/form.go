package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// form is the syntax of a dialect. Texts contain no escapes; inner has been written by the form already. prev and next are the adjacent
// characters, 0 at the edge of a line.
type form interface {
	prepare(runs []run) []run
	text(s string, prev, next rune) string
	code(s string, prev, next rune) string
	mark(m mark, inner string, prev, next rune) string
	link(url, inner, label string) string
	hardBreak() string

	paragraph(inner string) block
	heading(level int, inner string) block
	fence(language, code string) block
	quote(inner []block) block
	list(l list) block
	table(t table, w *writer) block
	rule() block
	join(blocks []block) string
}

// line is a line of output. A raw one may contain several, and is not indented.
type line struct {
	text string
	raw  bool
	hang string // begins the lines into which a terminal breaks this one
}

// block is a paragraph, a list, a table...
type block []line

// list is a list and its items.
type list struct {
	ordered bool
	start   int
	tight   bool
	items   [][]block
}

// writer writes one source in one form.
type writer struct {
	form   form
	source []byte
}

// inlines writes runs.
func (w *writer) inlines(runs []run) string {
	return w.group(w.form.prepare(merge(runs)), []mark{link, strong, emphasis, strike}, 0, 0)
}

// link is the outermost wrapping of text.
const link mark = 0

// group writes runs in stretches that share the first of their remaining wrappings, so that every wrapping is complete and inside another.
func (w *writer) group(runs []run, wraps []mark, prev, next rune) string {
	if len(wraps) == 0 {
		return w.leaves(runs, prev, next)
	}
	var b strings.Builder
	for i := 0; i < len(runs); {
		j := i + 1
		for j < len(runs) && runs[j].url == runs[i].url && (wraps[0] == link || runs[j].marks&wraps[0] == runs[i].marks&wraps[0]) {
			j++
		}
		part, after := runs[i:j], next
		if j < len(runs) {
			after = firstRune(runs[j].text)
		}
		b.WriteString(separate(b.String(), w.wrapped(part, wraps, prev, after)))
		prev, i = lastRune(runs[j-1].text), j
	}
	return b.String()
}

// wrapped writes runs that share wraps[0]. Spaces at the edges stay outside, because no dialect allows a mark next to a space.
func (w *writer) wrapped(runs []run, wraps []mark, prev, next rune) string {
	kind, rest := wraps[0], wraps[1:]
	if kind == link && runs[0].url == "" || kind != link && runs[0].marks&kind == 0 {
		return w.group(runs, rest, prev, next)
	}
	head, core, tail := trimmed(runs)
	if len(core) == 0 {
		return w.leaves(runs, prev, next)
	}
	if head != "" {
		prev = lastRune(head)
	}
	after := next
	if tail != "" {
		after = firstRune(tail)
	}
	var inner string
	if kind == link {
		inner = w.form.link(core[0].url, w.group(core, rest, 0, 0), textOf(core))
	} else {
		inner = w.form.mark(kind, w.group(core, rest, 0, 0), prev, after)
	}
	return w.form.text(head, prev, 0) + inner + w.form.text(tail, 0, next)
}

func (w *writer) leaves(runs []run, prev, next rune) string {
	var b strings.Builder
	for i, r := range runs {
		after := next
		if i+1 < len(runs) {
			after = firstRune(runs[i+1].text)
		}
		switch {
		case r.hard:
			b.WriteString(w.form.hardBreak())
		case r.code && strings.TrimSpace(r.text) != "":
			b.WriteString(separate(b.String(), w.form.code(r.text, prev, after)))
		default:
			b.WriteString(w.form.text(r.text, prev, after))
		}
		prev = lastRune(r.text)
	}
	return b.String()
}

// trimmed removes the spaces at both ends of runs.
func trimmed(runs []run) (head string, core []run, tail string) {
	core = append(core, runs...)
	for len(core) > 0 && !core[0].code {
		rest := strings.TrimLeftFunc(core[0].text, unicode.IsSpace)
		head += core[0].text[:len(core[0].text)-len(rest)]
		if core[0].text = rest; rest != "" {
			break
		}
		core = core[1:]
	}
	for len(core) > 0 && !core[len(core)-1].code {
		last := &core[len(core)-1]
		rest := strings.TrimRightFunc(last.text, unicode.IsSpace)
		tail = last.text[len(rest):] + tail
		if last.text = rest; rest != "" {
			break
		}
		core = core[:len(core)-1]
	}
	return head, core, tail
}

// merge joins adjacent runs that look the same.
func merge(runs []run) []run {
	var out []run
	for i := 0; i < len(runs); {
		r, j := runs[i], i+1
		for j < len(runs) && r.text != "\n" && runs[j].text != "\n" && runs[j].marks == r.marks && runs[j].url == r.url && runs[j].code == r.code {
			j++
		}
		if j > i+1 {
			r.text = textOf(runs[i:j])
		}
		out, i = append(out, r), j
	}
	return out
}

// zero is a zero-width space. It separates what would otherwise be read together.
const zero = "\u200b"

// separate keeps a mark apart from the one before.
func separate(before, next string) string {
	if before != "" && next != "" && before[len(before)-1] == next[0] && strings.IndexByte("*_~`", next[0]) >= 0 {
		return zero + next
	}
	return next
}

func firstRune(s string) rune {
	if r, n := utf8.DecodeRuneInString(s); n > 0 && r != '\n' {
		return r
	}
	return 0
}

func lastRune(s string) rune {
	if r, n := utf8.DecodeLastRuneInString(s); n > 0 && r != '\n' {
		return r
	}
	return 0
}

// word reports whether r is a letter or digit, next to which many dialects ignore a mark.
func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
