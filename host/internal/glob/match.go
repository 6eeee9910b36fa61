package glob

import (
	"strings"
	"unicode/utf8"
)

// match walks both strings once and, on a mismatch, returns to the last star only: an earlier star could not
// do better than the last one, which may already take any run.
func match(tokens []token, s string) bool {
	t, i := 0, 0
	afterStar, resume := -1, 0 // the token behind the last star, and where in s to try it next
	for t < len(tokens) || i < len(s) {
		if t < len(tokens) {
			if tokens[t].kind == star {
				t++
				afterStar, resume = t, i
				continue
			}
			if n, ok := tokens[t].take(s[i:]); ok {
				t, i = t+1, i+n
				continue
			}
		}
		if afterStar < 0 || resume >= len(s) {
			return false
		}
		_, size := utf8.DecodeRuneInString(s[resume:])
		resume += size
		t, i = afterStar, resume
	}
	return true
}

// take reports how many bytes of s the token, which is no star, uses up.
func (t token) take(s string) (int, bool) {
	if t.kind == literal {
		return len(t.text), strings.HasPrefix(s, t.text)
	}
	if s == "" {
		return 0, false
	}
	r, size := utf8.DecodeRuneInString(s)
	return size, t.kind == one || t.holds(r) != t.negate
}

func (t token) holds(r rune) bool {
	for _, s := range t.ranges {
		if s.low <= r && r <= s.high {
			return true
		}
	}
	return false
}
