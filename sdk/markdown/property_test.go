package markdown_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/sdk/markdown"
)

// scraps are what generated sources are made of.
var scraps = []string{
	"*", "**", "_", "__", "~~", "`", "``", "```", "```go\n", "\n```\n", "~~~\n", "> ", ">", "- ", "1. ", "  ", "    ", "\t", "\n", "\n\n", "# ", "###### ",
	"[", "](", ")", "](http://a.b/c_d)", "![", "<", "</b>", "<b>", "<script>", "&", "&amp;", "&#60;", `\`, `\*`, "|", "|\n|-|-|\n|", "| a | b |\n", "---\n", "===\n",
	"http://x.y/z_w", "javascript:alert(1)", "a@b.org", "<http://u.v>", "@everyone", "<@&1>", "<@12>", "||", "é", "日本", "👩‍👩‍👧", "\u0000", "\xff", "\u200b", ".", "! ", "'", "\"",
}

func source(t *rapid.T) string {
	var b strings.Builder
	for i := range rapid.IntRange(0, 60).Draw(t, "length") {
		if rapid.Bool().Draw(t, "word") {
			fmt.Fprintf(&b, "w%dx ", i)
			continue
		}
		b.WriteString(rapid.SampledFrom(scraps).Draw(t, "scrap"))
	}
	return b.String()
}

var allowed = map[markdown.Dialect][]string{
	markdown.TelegramHTML: {"b", "i", "s", "code", "pre", "a", "blockquote"},
	markdown.HTML: {"p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "a", "blockquote", "ul", "ol", "li",
		"table", "tr", "th", "td", "hr", "br"},
}

// wellFormed checks tags and attributes, and how they nest.
func wellFormed(d markdown.Dialect, text string) error {
	dec := xml.NewDecoder(strings.NewReader("<root>" + text + "</root>"))
	var open []string
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			if len(open) > 0 {
				if err := fits(d, name, token.Attr, open); err != nil {
					return err
				}
			}
			open = append(open, name)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
		default:
			return fmt.Errorf("a %T", token)
		}
	}
}

func fits(d markdown.Dialect, name string, attrs []xml.Attr, open []string) error {
	if !slices.Contains(allowed[d], name) {
		return fmt.Errorf("tag %q", name)
	}
	if name == "a" && slices.Contains(open, "a") {
		return errors.New("a link in a link")
	}
	for _, a := range attrs {
		ok := name == "a" && a.Name.Local == "href" && regexp.MustCompile(`(?i)^(https?://|mailto:).`).MatchString(a.Value) ||
			name == "code" && a.Name.Local == "class" && strings.HasPrefix(a.Value, "language-") ||
			d == markdown.HTML && (a.Name.Local == "align" || a.Name.Local == "start")
		if !ok {
			return fmt.Errorf("attribute %s=%q of %s", a.Name.Local, a.Value, name)
		}
	}
	if d != markdown.TelegramHTML {
		return nil
	}
	for _, outer := range open[1:] {
		switch {
		case outer == "code", outer == "pre" && name != "code", outer == name, name == "code" && outer != "pre" && outer != "blockquote":
			return fmt.Errorf("%s in %s", name, outer)
		}
	}
	return nil
}

var token = regexp.MustCompile(`w[0-9]+x`)

func TestMarkupIsWholeForAnySource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := source(t)
		for d := range allowed {
			if err := wellFormed(d, markdown.Render(text, d)); err != nil {
				t.Fatalf("dialect %d of %q is %q: %v", d, text, markdown.Render(text, d), err)
			}
		}
	})
}

func TestTextIsKept(t *testing.T) {
	definition := regexp.MustCompile(`\[[^\]]*\]:`)
	rapid.Check(t, func(t *rapid.T) {
		text := source(t)
		if definition.MatchString(text) || strings.Contains(text, "](") || strings.Contains(text, "|-|-|") || strings.Contains(text, "```") || strings.Contains(text, "~~~") {
			t.Skip("definitions, titles and info strings are not shown")
		}
		want := token.FindAllString(text, -1)
		for name, d := range dialects {
			got := markdown.Render(text, d)
			if have := slices.Compact(token.FindAllString(got, -1)); !slices.Equal(have, want) { // an address stands there twice
				t.Fatalf("%s of %q is %q", name, text, got)
			}
			if again := markdown.Render(text, d); again != got {
				t.Fatalf("%s of %q is %q and %q", name, text, got, again)
			}
		}
	})
}

func TestNobodyIsCalled(t *testing.T) {
	calls := regexp.MustCompile(`(?i)@everyone|@here|<@&[0-9]+>`)
	rapid.Check(t, func(t *rapid.T) {
		text := source(t)
		got := markdown.Render(text, markdown.Discord)
		for i, at := range calls.FindAllStringIndex(got, -1) {
			if at[0] == 0 || got[at[0]-1] != '\\' {
				if !strings.Contains(got, "`") && !strings.Contains(got, "://") {
					t.Fatalf("call %d in %q of %q", i, got, text)
				}
			}
		}
		if slack := markdown.Render(text, markdown.Slack); strings.Contains(slack, "<!") || strings.Contains(slack, "<@") {
			t.Fatalf("%q of %q", slack, text)
		}
	})
}

// sizes are ways to measure.
var sizes = map[string]func(string) int{
	"runes":    utf8.RuneCountInString,
	"bytes":    func(s string) int { return len(s) },
	"telegram": func(s string) int { return utf8.RuneCountInString(markdown.Render(s, markdown.TelegramHTML)) },
	"discord":  func(s string) int { return utf8.RuneCountInString(markdown.Render(s, markdown.Discord)) },
}

func TestSplitFitsAndLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := source(t), rapid.IntRange(40, 200).Draw(t, "limit")
		name := rapid.SampledFrom([]string{"runes", "bytes", "discord", "telegram"}).Draw(t, "size")
		pieces := markdown.Split(text, limit, sizes[name])
		for _, p := range pieces {
			if n := sizes[name](p); n > limit {
				t.Fatalf("%q has the size %d, over %d", p, n, limit)
			}
			if !utf8.ValidString(p) || strings.TrimSpace(p) == "" {
				t.Fatalf("piece %q", p)
			}
		}
		if rest := missing(text, strings.Join(pieces, "")); rest != "" {
			t.Fatalf("%q in pieces of %d %s is %q: lost from %q", text, limit, name, pieces, rest)
		}
	})
}

// missing returns the rest of the source that is not in joined, in order. It skips the parts that pieces repeat or escape.
func missing(source, joined string) string {
	joined = strings.ToValidUTF8(joined, "\uFFFD")
	for i, r := range source {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError || r == 0xFFFE || r == 0xFFFF || r == '>' {
			continue
		}
		at := strings.IndexRune(joined, r)
		if at < 0 {
			return source[i:]
		}
		joined = joined[at+utf8.RuneLen(r):]
	}
	return ""
}

func TestTinyLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := source(t), rapid.IntRange(1, 12).Draw(t, "limit")
		pieces := markdown.Split(text, limit, utf8.RuneCountInString)
		for _, p := range pieces {
			if utf8.RuneCountInString(p) > limit {
				t.Fatalf("%q is over %d", p, limit)
			}
		}
		if rest := missing(text, strings.Join(pieces, "")); rest != "" {
			t.Fatalf("%q in pieces of %d is %q: lost from %q", text, limit, pieces, rest)
		}
	})
}

func FuzzRender(f *testing.F) {
	for _, s := range scraps {
		f.Add(s + "a" + s)
	}
	f.Add("| a | b |\n|---|:-:|\n| `x` | <b> |\n\n> - 1. ```go\n> x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for d := range allowed {
			if err := wellFormed(d, markdown.Render(text, d)); err != nil {
				t.Errorf("dialect %d of %q: %v", d, text, err)
			}
		}
		pieces := markdown.Split(text, 50, utf8.RuneCountInString)
		if rest := missing(text, strings.Join(pieces, "")); rest != "" {
			t.Errorf("split %q into %q: lost from %q", text, pieces, rest)
		}
	})
}

// TestBombs gives sources that are dear for some parsers. A minute is far more than they take, and far less than they could.
func TestBombs(t *testing.T) {
	wide := strings.Repeat("|a", 4000) + "\n" + strings.Repeat("|-", 4000) + "\n" + strings.Repeat("|\n", 4000)
	bombs := map[string]string{"wide table": wide, "huge": strings.Repeat("*a ", 1<<20), "long": strings.Repeat("a *b* c.\n", 4_000)}
	for _, s := range []string{"> ", "- ", "[", "*", "*a **a ", "`", "``a`", "[a](", "a@", "http://a.", "<", "~~a ", "_a", "- a\n ", "|a", "- - > "} {
		bombs[s] = strings.Repeat(s, (12<<10)/len(s))
	}
	began := time.Now()
	for name, text := range bombs {
		t.Run(name, func(t *testing.T) {
			for d := range allowed {
				markdown.Render(text, d)
			}
			if len(text) < 100<<10 {
				markdown.Split(text, 4000, utf8.RuneCountInString)
			}
			if took := time.Since(began); took > time.Minute {
				t.Fatalf("took %v", took)
			}
		})
	}
}
