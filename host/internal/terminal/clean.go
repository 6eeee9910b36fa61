// Package terminal prepares the text of other people, models and programs for a terminal.
//
// Start with Clean, which removes everything that could steer the terminal, and Reveal, which spells it out, for a person who has to see
// what runs. Wrap breaks styled lines at a width. The package prints nothing and knows no colours.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
)

// Clean removes control characters, escape sequences with them, and characters that change the direction of text or show nothing. Joined
// emoji stay whole; the separators of lines and paragraphs become line ends.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == zeroWidthJoiner || r == zeroWidthNonJoiner:
			return r
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return '\n'
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, s)
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// Reveal spells out every invisible character, so that what a person approves is what runs.
func Reveal(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != '\t' && hidden(r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		(unicode.Is(unicode.Zs, r) && r != ' ')
}
