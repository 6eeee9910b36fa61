package glob

import (
	"errors"
	"fmt"
)

// parser reads a pattern from the front.
type parser struct{ rest []rune }

func (p *parser) next() (rune, bool) {
	if len(p.rest) == 0 {
		return 0, false
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c, true
}

// maxDepth bounds braces within braces.
const maxDepth = 8

// sequence reads up to the end, or up to a comma or closing brace inside braces, which it leaves.
func (p *parser) sequence(depth int) ([][]token, error) {
	alts := [][]token{nil}
	for len(p.rest) > 0 {
		if c := p.rest[0]; c == '}' || c == ',' && depth > 0 {
			return alts, nil
		}
		more, err := p.item(depth)
		if err != nil {
			return nil, err
		}
		if alts, err = multiply(alts, more); err != nil {
			return nil, err
		}
	}
	return alts, nil
}

// item reads one token, or one pair of braces.
func (p *parser) item(depth int) ([][]token, error) {
	c, _ := p.next()
	t := token{kind: literal, char: c}
	switch c {
	case '{':
		return p.braces(depth + 1)
	case '[':
		var err error
		if t, err = p.class(); err != nil {
			return nil, err
		}
	case '*':
		t.kind = star
	case '?':
		t.kind = any1
	case ']':
		return nil, errors.New(`"]" has no opening bracket: write \] for the character itself`)
	case '\\':
		var ok bool
		if t.char, ok = p.next(); !ok {
			return nil, errors.New("backslash at the end escapes nothing")
		}
	}
	return [][]token{{t}}, nil
}

func (p *parser) braces(depth int) ([][]token, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("braces are nested more than %d deep", maxDepth)
	}
	var all [][]token
	for {
		alts, err := p.sequence(depth)
		if err != nil {
			return nil, err
		}
		if all = append(all, alts...); len(all) > MaxAlternatives {
			return nil, errTooMany
		}
		switch c, ok := p.next(); {
		case !ok:
			return nil, errors.New(`"{" is never closed: write \{ for the character itself`)
		case c == '}':
			return all, nil
		}
	}
}

var errTooMany = fmt.Errorf("braces make more than %d alternatives", MaxAlternatives)

// multiply appends each of more to each of alts.
func multiply(alts, more [][]token) ([][]token, error) {
	if len(more) == 1 {
		for i := range alts {
			alts[i] = append(alts[i], more[0]...)
		}
		return alts, nil
	}
	if len(alts)*len(more) > MaxAlternatives {
		return nil, errTooMany
	}
	var out [][]token
	for _, a := range alts {
		for _, m := range more {
			out = append(out, append(append([]token(nil), a...), m...))
		}
	}
	return out, nil
}

// class reads what follows an opening bracket. A closing bracket right at the begin is an ordinary member.
func (p *parser) class() (token, error) {
	t := token{kind: class}
	if len(p.rest) > 0 && (p.rest[0] == '!' || p.rest[0] == '^') {
		t.negate = true
		p.next()
	}
	for first := true; ; first = false {
		c, ok := p.next()
		if !ok {
			return t, errors.New(`"[" is never closed: write \[ for the character itself`)
		}
		if c == ']' && !first {
			return t, nil
		}
		if c == '\\' {
			if c, ok = p.next(); !ok {
				return t, errors.New("backslash at the end escapes nothing")
			}
		}
		hi := c
		if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
			p.next()
			hi, _ = p.next()
			if hi == '\\' {
				if hi, ok = p.next(); !ok {
					return t, errors.New("backslash at the end escapes nothing")
				}
			}
			if hi < c {
				return t, fmt.Errorf("range %c-%c is upside down", c, hi)
			}
		}
		t.ranges = append(t.ranges, span{c, hi})
	}
}
