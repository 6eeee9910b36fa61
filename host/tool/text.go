package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxText bounds the text of a result as the model gets it, in bytes.
const MaxText = 64 << 10

// cutText returns at most max bytes of s, cut at a rune.
func cutText(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// cutTail returns at most the last max bytes of s, cut at a rune.
func cutTail(s string, max int) string {
	if len(s) <= max {
		return s
	}
	start := len(s) - max
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}

// boundText makes text valid UTF-8 and at most max bytes long. The head and the tail stay, since a
// command's first lines say what it did and its last lines why it failed; rest tells how to read what is left out.
func boundText(text string, max int, rest string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= max {
		return text
	}
	const room = 256 // for the marker
	keep := max - room - len(rest)
	if keep < 0 {
		return cutText(text, max)
	}
	head := cutText(text, keep*3/4)
	tail := cutTail(text, keep/4)
	left := len(text) - len(head) - len(tail)
	return fmt.Sprintf("%s\n\n[... %d bytes left out. %s ...]\n\n%s", head, left, rest, tail)
}
