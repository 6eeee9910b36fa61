package glob

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	literal kind = iota
	one          // any character
	class        // one character of ranges
	star         // any run of characters
)

// token is one step of an alternative. Neighbouring literals are joined, and so are neighbouring stars.
type token struct {
	kind   kind
	text   string // literal
	negate bool   // class
	ranges []span // class
}

type span struct{ low, high rune }

type parser struct{ rest string }

// sequence reads until the end of the pattern, or inside braces until a comma or the closing brace, which it
// leaves in place. It returns every way the braces in it can expand.
func (p *parser) sequence(depth int) ([][]token, error) {
	expanded := [][]token{nil}
	for p.rest != "" {
		if depth > 0 && (p.rest[0] == ',' || p.rest[0] == '}') {
			return expanded, nil
		}
		options, err := p.item(depth)
		if err != nil {
			return nil, err
		}
		if expanded, err = product(expanded, options); err != nil {
			return nil, err
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("a { is not closed; write [{] for a literal brace")
	}
	return expanded, nil
}

func (p *parser) item(depth int) ([][]token, error) {
	switch p.rest[0] {
	case '{':
		return p.braces(depth + 1)
	case '[':
		t, err := p.class()
		return [][]token{{t}}, err
	case '*':
		p.rest = strings.TrimLeft(p.rest, "*")
		return [][]token{{{kind: star}}}, nil
	case '?':
		p.rest = p.rest[1:]
		return [][]token{{{kind: one}}}, nil
	}
	return [][]token{{p.literal(depth)}}, nil
}

func (p *parser) literal(depth int) token {
	special := "{[*?"
	if depth > 0 {
		special = "{[*?,}"
	}
	end := strings.IndexAny(p.rest, special)
	if end < 0 {
		end = len(p.rest)
	}
	t := token{kind: literal, text: p.rest[:end]}
	p.rest = p.rest[end:]
	return t
}

func (p *parser) braces(depth int) ([][]token, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("braces are nested deeper than %d", MaxDepth)
	}
	var all [][]token
	for {
		p.rest = p.rest[1:] // the brace or the comma
		options, err := p.sequence(depth)
		if err != nil {
			return nil, err
		}
		if all = append(all, options...); len(all) > MaxAlternatives {
			return nil, errAlternatives()
		}
		if p.rest[0] == '}' {
			p.rest = p.rest[1:]
			return all, nil
		}
	}
}

func (p *parser) class() (token, error) {
	t := token{kind: class}
	rest := p.rest[1:]
	if (rest != "" && (rest[0] == '!' || rest[0] == '^')) && !strings.HasPrefix(rest[1:], "]") {
		t.negate, rest = true, rest[1:]
	}
	for first := true; ; first = false {
		if rest == "" {
			return t, fmt.Errorf("a [ is not closed; write [[] for a literal bracket")
		}
		if rest[0] == ']' && !first {
			p.rest = rest[1:]
			return t, nil
		}
		var low rune
		low, rest = next(rest)
		high := low
		if len(rest) >= 2 && rest[0] == '-' && rest[1] != ']' {
			high, rest = next(rest[1:])
		}
		if high < low {
			return t, fmt.Errorf("the range %c-%c runs backwards", low, high)
		}
		t.ranges = append(t.ranges, span{low, high})
	}
}

func next(s string) (rune, string) {
	r, size := utf8.DecodeRuneInString(s)
	return r, s[size:]
}

// product appends every option to every prefix. It owns both: a single option extends the prefixes in
// place, so that a long pattern costs its length and not the square of it.
func product(prefixes, options [][]token) ([][]token, error) {
	if len(options) == 1 {
		for i, prefix := range prefixes {
			prefixes[i] = join(prefix, options[0])
		}
		return prefixes, nil
	}
	if len(prefixes)*len(options) > MaxAlternatives {
		return nil, errAlternatives()
	}
	all := make([][]token, 0, len(prefixes)*len(options))
	for _, prefix := range prefixes {
		for _, option := range options {
			all = append(all, join(slices.Clone(prefix), option))
		}
	}
	return all, nil
}

func errAlternatives() error {
	return fmt.Errorf("braces make more than %d alternatives; write several rules", MaxAlternatives)
}

func join(tokens, more []token) []token {
	for _, t := range more {
		last := len(tokens) - 1
		switch {
		case last >= 0 && t.kind == literal && tokens[last].kind == literal:
			tokens[last].text += t.text
		case last >= 0 && t.kind == star && tokens[last].kind == star:
		default:
			tokens = append(tokens, t)
		}
	}
	return tokens
}
