package terminal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/internal/terminal"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b]0;title\x07b":           "a]0;titleb",
		"\x1b]52;c;aGk=\x1b\\x":        "]52;c;aGk=\\x",
		"\u009b31mred":                 "31mred",
		"one\u2028two\u2029three":      "one\ntwo\nthree",
		"a\u202egnp.exe\u2066":         "agnp.exe",
		"soft\u00adhyphen\ufeff\u200b": "softhyphen",
		"👩‍🚀 a\tb\n":                   "👩‍🚀 a\tb\n",
		"bell\a back\b\r":              "bell back",
	} {
		if got := terminal.Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
	for _, v := range rude.Texts() {
		if got := terminal.Clean(v.Text); strings.ContainsAny(got, "\x1b\x07\r\u009b\u202e") {
			t.Errorf("%s: Clean left %q", v.Name, got)
		}
	}
}

func TestReveal(t *testing.T) {
	if got, want := terminal.Reveal("ls\u202e\x1b[2K\u00a0x"), "ls<U+202E><U+001B>[2K<U+00A0>x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		name, text string
		width      int
		hang       string
		want       []string
	}{
		{"fits", "one two", 7, "", []string{"one two"}},
		{"at a space", "one two three", 7, "  ", []string{"one two", "  three"}},
		{"space at the edge", "one two   three", 7, "", []string{"one two", "three"}},
		{"long word", "abcdefgh", 3, "", []string{"abc", "def", "gh"}},
		{"wide", "世界世界", 5, "", []string{"世界", "世界"}},
		{"joined emoji count as the widest terminal shows them", "👩‍👩‍👧👩‍👩‍👧", 6, "", []string{"👩‍👩‍👧", "👩‍👩‍👧"}},
		{"styles go on", "\x1b[1mone two\x1b[22m x", 4, "> ", []string{"\x1b[1mone\x1b[0m", "> \x1b[1mtw\x1b[0m", "> \x1b[1mo\x1b[22m", "> x"}},
		{"own line ends", "a\n\nb", 5, "> ", []string{"a", "", "b"}},
		{"tabs", "a\tb", 10, "", []string{"a   b"}},
		{"hang wider than the line", "abc", 1, "----", []string{"a", "b", "c"}},
		{"no bound", "a b", 0, "", []string{"a b"}},
		{"indented", "    code goes on", 10, "", []string{"    code", "goes on"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, terminal.Wrap(tt.text, tt.width, tt.hang)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// No line is wider than the width, and no letter is lost.
func TestWrapKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := terminal.Clean(rapid.StringOf(rapid.RuneFrom([]rune("ab 世🚀\n\té"))).Draw(t, "text"))
		width := rapid.IntRange(2, 20).Draw(t, "width")
		lines := terminal.Wrap(text, width, "")
		for _, l := range lines {
			if terminal.Width(l) > width && width > 3 {
				t.Fatalf("%q has %d cells of %d", l, terminal.Width(l), width)
			}
		}
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := bare(strings.Join(lines, "")); got != bare(text) {
			t.Fatalf("%q became %q", text, lines)
		}
	})
}
