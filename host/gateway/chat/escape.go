package chat

import (
	"fmt"
	"strings"
	"unicode"
)

// printable removes from an answer what could control the terminal: control characters, and marks that change the
// direction of text. Everything else stays, such as joined emoji.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
}

// revealed spells out every invisible character, so that what a person approves is what runs.
func revealed(s string) string {
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
