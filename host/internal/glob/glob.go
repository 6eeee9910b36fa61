// Package glob matches strings against Flynn's globs, the one meaning that routing rules, tool
// rules and policies share.
//
//   - `*` matches any run of characters, the empty one, "/" and ":" included
//   - `?` matches one character
//   - `[a-z_]` matches one character of a class; a leading `!` or `^` negates it; a `]` that stands
//     first and a `-` that stands first or last mean themselves, and so do the lone `!` and `^` of `[!]` and `[^]`
//   - `{a,b}` matches either alternative, which may be empty and may hold globs and further braces
//
// Everything else means itself, letter case included; `[*]` is a literal star. A pattern with a leading `!` or `#` is
// refused, because people who write one mean a negation or a comment, and a glob knows neither.
//
// Start with Compile. Matching takes at most the length of the pattern times the length of the string: it never
// backtracks past the last star. The package does not know about paths.
package glob

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of a pattern.
const (
	MaxLength       = 1024 // bytes
	MaxAlternatives = 64   // after all braces are expanded
	MaxDepth        = 8    // of braces in braces
)

// Pattern is a compiled glob. It is safe for concurrent use.
type Pattern struct {
	source       string
	alternatives [][]token
}

// Compile reads a pattern.
func Compile(pattern string) (*Pattern, error) {
	if err := check(pattern); err != nil {
		return nil, fmt.Errorf("glob %q: %w", clip(pattern), err)
	}
	p := parser{rest: pattern}
	alternatives, err := p.sequence(0)
	if err != nil {
		return nil, fmt.Errorf("glob %q: %w", clip(pattern), err)
	}
	return &Pattern{source: pattern, alternatives: alternatives}, nil
}

func check(pattern string) error {
	switch {
	case len(pattern) > MaxLength:
		return fmt.Errorf("%d bytes long, at most %d are allowed", len(pattern), MaxLength)
	case !utf8.ValidString(pattern):
		return fmt.Errorf("not valid UTF-8")
	case strings.HasPrefix(pattern, "!"):
		return fmt.Errorf("a leading ! does not negate; write [!] for a literal exclamation mark")
	case strings.HasPrefix(pattern, "#"):
		return fmt.Errorf("a leading # does not comment; write [#] for a literal hash")
	}
	return nil
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(cut.Head(s, most), "") + "..."
}

// String is the source of the pattern.
func (p *Pattern) String() string { return p.source }

// Match reports whether the whole of s fits the pattern.
func (p *Pattern) Match(s string) bool {
	for _, tokens := range p.alternatives {
		if match(tokens, s) {
			return true
		}
	}
	return false
}

// Prefix is the longest literal string that everything the pattern matches begins with.
func (p *Pattern) Prefix() string {
	prefix := leadingLiteral(p.alternatives[0])
	for _, tokens := range p.alternatives[1:] {
		prefix = common(prefix, leadingLiteral(tokens))
	}
	return prefix
}

func leadingLiteral(tokens []token) string {
	if len(tokens) == 0 || tokens[0].kind != literal {
		return ""
	}
	return tokens[0].text
}

// common cuts at a character, never inside one.
func common(a, b string) string {
	n := 0
	for i, r := range a {
		if !strings.HasPrefix(b[n:], string(r)) {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	return a[:n]
}

// Literals counts the literal characters of the pattern; with alternatives, those of the one that has fewest.
func (p *Pattern) Literals() int {
	fewest := MaxLength
	for _, tokens := range p.alternatives {
		n := 0
		for _, t := range tokens {
			n += utf8.RuneCountInString(t.text)
		}
		fewest = min(fewest, n)
	}
	return fewest
}
