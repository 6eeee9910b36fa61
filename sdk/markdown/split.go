package markdown

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Split splits Markdown into pieces whose size is at most limit each, as measured by size. If the limit concerns what is shown, size
// renders the piece and counts the result.
//
// Split cuts at an empty line if there is one, else at the end of a line, a sentence or a word. Everything that a cut interrupts is closed
// and reopened: blocks of code with their language, quotes, the head of a table, bold text and the like; the rest of a list item continues
// without indentation. If the limit leaves no room for that, the text is cut as it is.
func Split(source string, limit int, size func(string) int) []string {
	source = clean(source)
	if strings.TrimSpace(source) == "" {
		return nil
	}
	if size(source) <= limit {
		return []string{source}
	}
	s := &splitter{source: source, limit: limit, size: size, lines: scan(source)}
	if len(source) <= maxParsed && !heavy(source) {
		s.spans = spans([]byte(source))
	}
	var pieces []string
	for at := 0; at < len(source); {
		piece, next := s.next(at)
		if strings.TrimSpace(piece) != "" {
			pieces = append(pieces, piece)
		}
		at = next
	}
	return pieces
}

type splitter struct {
	source string
	limit  int
	size   func(string) int
	lines  []sourceLine
	spans  []span
}

// next returns the piece that begins at a, and where the next one begins.
func (s *splitter) next(a int) (string, int) {
	for _, write := range []func(a, b int) string{s.piece, s.bare} {
		fits := func(b int) bool { return s.size(write(a, b)) <= s.limit }
		if fits(len(s.source)) {
			return write(a, len(s.source)), len(s.source)
		}
		for far := s.reach(a, fits); far > a; {
			b := s.cut(a, far, fits)
			if b > a && fits(b) {
				return write(a, b), b
			}
			far = min(b, far) - max(1, (far-a)/8)
		}
	}
	_, n := utf8.DecodeRuneInString(s.source[a:])
	return s.bare(a, a+n), a + n
}

// reach returns approximately the furthest end that fits.
func (s *splitter) reach(a int, fits func(int) bool) int {
	low, high := a, s.whole(min(len(s.source), a+max(s.limit, 16)))
	for high < len(s.source) && fits(high) {
		low, high = high, s.whole(min(len(s.source), a+2*(high-a)))
	}
	for low+1 < high {
		if middle := s.whole((low + high) / 2); middle > low && fits(middle) {
			low = middle
		} else {
			high = (low + high) / 2
		}
	}
	for low < len(s.source) { // the search avoids splitting runes, and may have passed the last end that fits
		_, n := utf8.DecodeRuneInString(s.source[low:])
		if !fits(low + n) {
			break
		}
		low += n
	}
	return low
}

// whole moves an offset back to the start of a rune.
func (s *splitter) whole(at int) int {
	for at > 0 && at < len(s.source) && !utf8.RuneStart(s.source[at]) {
		at--
	}
	return at
}

// bare returns a piece without additions.
func (s *splitter) bare(a, b int) string { return s.source[a:b] }

// line returns the number of the line that contains an offset. It includes the line break at its end.
func (s *splitter) line(at int) int {
	n, found := slices.BinarySearchFunc(s.lines, at, func(l sourceLine, at int) int { return l.start - at })
	if !found {
		n--
	}
	return min(n, len(s.lines)-1)
}

// cut returns the best place for a cut after a and up to far, or far.
func (s *splitter) cut(a, far int, fits func(int) bool) int {
	first, last := s.line(a), s.line(far)
	lineBreak := 0
	for i := last; i > first && s.lines[i].start > a; i-- {
		at := s.lines[i].start
		rank := s.rank(i)
		if rank == rankBlock && at-a >= (far-a)*2/5 {
			return s.keepCode(a, at, i, fits)
		}
		if rank >= rankLine && lineBreak == 0 {
			lineBreak = i
		}
	}
	if lineBreak > 0 && s.lines[lineBreak].start-a >= (far-a)/4 {
		return s.keepCode(a, s.lines[lineBreak].start, lineBreak, fits)
	}
	if at := s.sentence(a, far); at > a {
		return at
	}
	if lineBreak > 0 {
		return s.lines[lineBreak].start
	}
	return s.grapheme(a, far)
}

// The ranks of a cut before a line.
const (
	rankNone  = iota // it would leave an empty block of code, or the head of a table without its rule
	rankLine         // at the end of a line
	rankBlock        // between blocks
)

func (s *splitter) rank(i int) int {
	l, before := s.lines[i], s.lines[i-1]
	switch {
	case l.closes, before.opens, i+1 < len(s.lines) && s.lines[i+1].table == i-1, l.table >= 0 && before.table < 0:
		return rankNone
	case l.fence != nil:
		return rankLine
	case l.opens, before.closes, strings.TrimSpace(s.source[before.content():before.end]) == "":
		return rankBlock
	}
	return rankLine
}

// keepCode moves a cut inside a block of code before it, if the block fits into one piece.
func (s *splitter) keepCode(a, at, i int, fits func(int) bool) int {
	f := s.lines[i].fence
	if f == nil || s.lines[f.open].start <= a {
		return at
	}
	last := i
	for last+1 < len(s.lines) && s.lines[last+1].fence == f {
		last++
	}
	if front := s.lines[f.open].start; s.size(s.piece(front, s.lines[last].end)) <= s.limit && fits(front) {
		return front
	}
	return at
}

var sentenceEnd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[.!?…:;。！？]["')\]*_~]*\s`) })

// sentence returns the end of the last sentence or word, or 0. Links and code are kept together if possible.
func (s *splitter) sentence(a, far int) int {
	from := max(a, s.whole(far-1024))
	text := s.source[from:far]
	word := 0
	ends := sentenceEnd().FindAllStringIndex(text, -1)
	for i := len(ends) - 1; i >= 0; i-- {
		if at := from + ends[i][1]; at-a >= (far-a)/3 && s.open(at) {
			return at
		}
	}
	for i := len(text); i > 0 && word == 0; i-- {
		if c := text[i-1]; (c == ' ' || c == '\t' || c == '\n') && s.open(from+i) && strings.TrimSpace(s.source[a:from+i]) != "" {
			word = from + i
		}
	}
	return word
}

// open reports whether a cut splits neither a link, nor code, nor a line that has to stay whole.
func (s *splitter) open(at int) bool {
	l := s.lines[s.line(at)]
	if l.opens || l.closes || at <= l.content() && at > l.start {
		return false
	}
	if l.fence != nil {
		return true
	}
	_, _, whole := marksAt(s.spans, at)
	return !whole
}

// grapheme returns the last position up to far that is not within a grapheme cluster.
func (s *splitter) grapheme(a, far int) int {
	from := max(a, s.whole(far-512))
	at := from
	for rest, state := s.source[from:], -1; rest != "" && at < far; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if at+len(cluster) > far {
			break
		}
		at += len(cluster)
	}
	if at <= a {
		return s.whole(far)
	}
	return at
}
