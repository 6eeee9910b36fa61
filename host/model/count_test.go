package model

import "testing"

// FuzzQuarters holds the count by eight bytes against the one by one byte.
func FuzzQuarters(f *testing.F) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, seed := range []string{"", " ", "a", "Hello, world", "@[`{ AZaz", "ÄÖÜ und 漢字", string(every), string(every[3:])} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := 0
		for i := range len(text) {
			want += 2
			if c := text[i]; c == ' ' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
				want--
			}
		}
		if got := quarters(text); got != want {
			t.Errorf("%q has %d quarters, want %d", text, got, want)
		}
	})
}
