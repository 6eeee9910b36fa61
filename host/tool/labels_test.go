package tool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestJoinLabels(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name             string
		have, more, want []string
	}{
		{"sorted, each once", []string{"web:b"}, []string{"web:c", "web:a", "web:b", "web:c"}, []string{"web:a", "web:b", "web:c"}},
		{"nothing", nil, nil, nil},
		{"a line break", nil, []string{"file:a\nsender:owner"}, []string{"file:a%0Asender:owner"}},
		{"what does not show", nil, []string{"file:a\u202eb\x00\xffc"}, []string{"file:a%E2%80%AEb%00%FFc"}},
		{"letters of all people", nil, []string{"file:grüße/日本"}, []string{"file:grüße/日本"}},
		{"too long", nil, []string{"file:" + long}, []string{"file:" + long[:MaxLabel-6] + "*"}},
		{"no kind", nil, []string{"hello"}, []string{"other:hello"}},
		{"a kind that nobody could name", nil, []string{"Web!:x", ":x"}, []string{"other::x", "other:Web!:x"}},
		{"an endless kind", nil, []string{long + ":x"}, []string{"other:" + long[:MaxLabel-7] + "*"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := slices.Clone(c.have)
			if got := JoinLabels(c.have, c.more); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !slices.Equal(have, c.have) {
				t.Errorf("the list itself became %q", c.have)
			}
		})
	}
}

func TestLabelsAreBoundedInAllDirections(t *testing.T) {
	var labels []string
	for i := range 100_000 {
		kind := string(rune('a'+i%26)) + string(rune('a'+i/26%26))
		labels = JoinLabels(labels, []string{fmt.Sprintf("%s:%d", kind, i)})
	}
	if len(labels) > 2*MaxLabels+1 || !slices.Contains(labels, "other:*") {
		t.Errorf("%d labels", len(labels))
	}
}

func FuzzJoinLabels(f *testing.F) {
	f.Add("web:example.com", "file:a\nb")
	f.Add("\xff", strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, a, b string) {
		got := JoinLabels(nil, []string{a, b})
		if !slices.IsSorted(got) {
			t.Errorf("not sorted: %q", got)
		}
		for _, l := range got {
			kind, _, ok := strings.Cut(l, ":")
			if !ok || !validKind(kind) || len(l) > MaxLabel || !utf8.ValidString(l) || strings.ContainsFunc(l, unicode.IsControl) {
				t.Errorf("label %q", l)
			}
		}
	})
}
