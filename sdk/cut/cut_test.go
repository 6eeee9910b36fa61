package cut

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		text       string
		most       int
		head, tail string
	}{
		{"", 0, "", ""},
		{"text", 4, "text", "text"},
		{"text", 3, "tex", "ext"},
		{"text", 0, "", ""},
		{"text", -1, "", ""},
		{"a€b", 3, "a", "b"},
		{"a€b", 4, "a€", "€b"},
		{"€€", 2, "", ""},
		{"€€", 5, "€", "€"},
		{"a\U0001F600", 4, "a", "\U0001F600"},
		{strings.Repeat("\xbf", 8), 5, strings.Repeat("\xbf", 5), strings.Repeat("\xbf", 5)},
	} {
		if got := Head(c.text, c.most); got != c.head {
			t.Errorf("Head(%q, %d) = %q, want %q", c.text, c.most, got, c.head)
		}
		if got := Tail(c.text, c.most); got != c.tail {
			t.Errorf("Tail(%q, %d) = %q, want %q", c.text, c.most, got, c.tail)
		}
	}
}

func TestEndsAreWholeAndLong(t *testing.T) {
	for _, s := range []string{"", "plain text", "a€b\U0001F600cé", "\U0001F600\U0001F600", "éé€€", "\uFFFD\uFFFD"} {
		for most := range len(s) + 2 {
			head, tail := Head(s, most), Tail(s, most)
			if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || !utf8.ValidString(head) || !utf8.ValidString(tail) {
				t.Errorf("%d bytes of %q are %q and %q", most, s, head, tail)
			}
			for _, end := range []string{head, tail} {
				if len(end) > most || len(s) > most && len(end) <= most-utf8.UTFMax || len(s) <= most && end != s {
					t.Errorf("%d bytes of %q are %q", most, s, end)
				}
			}
		}
	}
}
