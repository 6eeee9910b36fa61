// Package cut shortens text to a number of bytes without splitting a character.
//
// Start with Head. The package counts bytes, which is what most limits are about; it does not help where a platform counts characters.
package cut

import "unicode/utf8"

// Head returns the longest beginning of s that has at most most bytes and no incomplete character. If s is not UTF-8, it returns exactly
// that many bytes.
func Head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := max(most, 0)
	for n := end; n >= 0 && n > end-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:end]
}

// Tail is Head for the end of s.
func Tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	begin := len(s) - max(most, 0)
	for n := begin; n < min(len(s), begin+utf8.UTFMax); n++ {
		if utf8.RuneStart(s[n]) {
			return s[n:]
		}
	}
	if len(s)-begin < utf8.UTFMax {
		return ""
	}
	return s[begin:]
}
