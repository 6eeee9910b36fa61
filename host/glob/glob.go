// Package glob matches identifiers against Flynn's patterns.
//
// Start with Compile. `*` matches any run of characters, `/` and `:` included; `?` one character;
// `[...]` one of a class, with ranges, negated by a leading `!` or `^`; `{a,b}` one of several alternatives; a
// backslash takes the next character as it is. Matching takes time linear in the text for each star. The
// package knows nothing of paths: no character is special to a star.
package glob

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a pattern.
const (
	MaxLength       = 1024 // bytes
	MaxAlternatives = 64   // after all braces are multiplied out
)

// Pattern is a compiled pattern. It is immutable.
type Pattern struct {
	text string
	alts [][]token
}

// kind is what a token matches.
type kind uint8

const (
	literal kind = iota
	any1         // ?
	star         // *
	class        // [...]
)

type token struct {
	kind   kind
	char   rune
	ranges []span
	negate bool
}

// span is an inclusive range of characters.
type span struct{ lo, hi rune }

// Compile reads a pattern.
func Compile(pattern string) (*Pattern, error) {
	switch {
	case pattern == "":
		return nil, errors.New("pattern is empty")
	case len(pattern) > MaxLength:
		return nil, fmt.Errorf("pattern has %d bytes, more than %d", len(pattern), MaxLength)
	case !utf8.ValidString(pattern):
		return nil, errors.New("pattern is not valid UTF-8")
	}
	p := parser{rest: []rune(pattern)}
	alts, err := p.sequence(0)
	if err == nil && len(p.rest) > 0 {
		err = fmt.Errorf("%q has no opening brace", p.rest[0])
	}
	if err != nil {
		return nil, fmt.Errorf("compile pattern %q: %w", pattern, err)
	}
	return &Pattern{text: pattern, alts: alts}, nil
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Match tells whether the whole of s matches. A byte that is not UTF-8 counts as one character.
func (p *Pattern) Match(s string) bool {
	for _, a := range p.alts {
		if match(a, s) {
			return true
		}
	}
	return false
}

// match walks s once and returns to the last star when it is stuck; earlier stars never have to be tried again.
func match(tokens []token, s string) bool {
	t, i := 0, 0
	starT, starI := -1, 0
	for i < len(s) {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case t < len(tokens) && tokens[t].kind == star:
			starT, starI = t, i
			t++
		case t < len(tokens) && tokens[t].accepts(c):
			t++
			i += size
		case starT >= 0:
			_, skip := utf8.DecodeRuneInString(s[starI:])
			starI += skip
			t, i = starT+1, starI
		default:
			return false
		}
	}
	for t < len(tokens) && tokens[t].kind == star {
		t++
	}
	return t == len(tokens)
}

func (t token) accepts(c rune) bool {
	switch t.kind {
	case literal:
		return t.char == c
	case any1:
		return true
	}
	for _, r := range t.ranges {
		if r.lo <= c && c <= r.hi {
			return !t.negate
		}
	}
	return t.negate
}

// Prefix returns the literal text that everything matched begins with.
func (p *Pattern) Prefix() string {
	prefix := literalPrefix(p.alts[0])
	for _, a := range p.alts[1:] {
		other := literalPrefix(a)
		n := 0
		for n < len(prefix) && n < len(other) && prefix[n] == other[n] {
			n++
		}
		for n > 0 && n < len(prefix) && !utf8.RuneStart(prefix[n]) {
			n--
		}
		prefix = prefix[:n]
	}
	return prefix
}

func literalPrefix(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.kind != literal {
			break
		}
		b.WriteRune(t.char)
	}
	return b.String()
}

// Literals returns the number of literal characters, of the alternative that has fewest.
func (p *Pattern) Literals() int {
	fewest := -1
	for _, a := range p.alts {
		n := 0
		for _, t := range a {
			if t.kind == literal {
				n++
			}
		}
		if fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}

// Special tells whether s means something else than itself as a pattern.
func Special(s string) bool { return strings.ContainsAny(s, `*?[]{}\`) }

// Escape returns the pattern that matches s alone.
func Escape(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune(`*?[]{},\`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Unescape returns the one text that a pattern matches, if it has no special character but backslashes.
func Unescape(pattern string) (string, bool) {
	p, err := Compile(pattern)
	if err != nil || len(p.alts) != 1 {
		return "", false
	}
	s := literalPrefix(p.alts[0])
	return s, utf8.RuneCountInString(s) == len(p.alts[0])
}
