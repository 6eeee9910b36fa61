package markdown_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/sdk/markdown"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func terminalText(source string, width int, colour bool) string {
	var out []string
	for _, l := range markdown.Terminal(source, width, colour) {
		out = append(out, l.Text)
	}
	return strings.Join(out, "\n")
}

// TestTerminalGolden shows escapes as ^[, so that the file can be read and compared.
func TestTerminalGolden(t *testing.T) {
	source, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, colour := range map[string]bool{"terminal": true, "terminal_no_colour": false} {
		got, path := strings.ReplaceAll(terminalText(string(source), 60, colour), "\x1b", "^[")+"\n", "testdata/"+name+".golden"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

var sgr = regexp.MustCompile(`\x1b\[[0-9]+m`)

// steers returns why text could steer a terminal.
func steers(text string) string {
	for _, r := range sgr.ReplaceAllString(text, "") {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return "it holds " + string(r) + " " + strings.ToUpper(regexp.QuoteMeta(string(r)))
		}
	}
	return ""
}

func TestTerminalIsNotSteered(t *testing.T) {
	for _, v := range rude.Texts() {
		if why := steers(terminalText(v.Text, 40, true)); why != "" {
			t.Errorf("%s: %s", v.Name, why)
		}
	}
	for _, source := range []string{"&#27;[2J", "&#x202e;x", "[a](http://x/&#x1b;)", "`\x1b]52;c;x\x07`", "```\n\x1b[2J\u202e\n```", "| \x1b[1m |\n|-|\n| &#x9b; |"} {
		if why := steers(terminalText(source, 40, true)); why != "" {
			t.Errorf("%q: %s", source, why)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := source(t)
		if why := steers(terminalText(text, rapid.IntRange(0, 80).Draw(t, "width"), true)); why != "" {
			t.Fatalf("%q: %s", text, why)
		}
	})
}

func TestTerminalTables(t *testing.T) {
	table := "| Name | 数 |\n|---|---:|\n| 世界 | 1 |\n| b | 22 |\n"
	if got, want := sgr.ReplaceAllString(terminalText(table, 20, true), ""), "Name │ 数\n─────┼───\n世界 │  1\nb    │ 22"; got != want {
		t.Errorf("wide enough:\n%s\nwant\n%s", got, want)
	}
	if got, want := sgr.ReplaceAllString(terminalText(table, 8, true), ""), "Name: 世界\n数: 1\n\nName: b\n数: 22"; got != want {
		t.Errorf("too narrow:\n%s\nwant\n%s", got, want)
	}
}
