package demo

import (
	"strings"
	"testing"
)

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"", " ", "a", "a b", " leading and trailing ", "eight by", "eight bytes and more of them", "tabs\tand\nlines\r\n", "grüße, ünïcödé"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		between := func(c rune) bool { return c <= ' ' }
		if got, want := words(text), len(strings.FieldsFunc(text, between)); got != want {
			t.Errorf("%d words in %q, want %d", got, text, want)
		}
	})
}
