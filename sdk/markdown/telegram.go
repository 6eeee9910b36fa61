package markdown

import (
	stdhtml "html"
	"strings"
)

// telegram is what https://core.telegram.org/bots/api#html-style allows: code holds nothing and lies in nothing but a quote, and
// quotes do not lie in quotes.
type telegram struct{ plain }

// prepare takes away what may not be around code.
func (telegram) prepare(runs []run) []run {
	for i := range runs {
		if runs[i].code {
			runs[i].marks, runs[i].code = 0, runs[i].url == ""
		}
	}
	return runs
}

func (telegram) text(s string, _, _ rune) string { return escaped(s) }
func (telegram) code(s string, _, _ rune) string { return element("code", escaped(s)) }
func (telegram) list(l list) block               { return listed(l, "• ") }
func (telegram) table(t table, _ *writer) block {
	return rawBlock(element("pre", escaped(columns(t))))
}

func (telegram) mark(m mark, inner string, _, _ rune) string {
	switch m {
	case strong:
		return element("b", inner)
	case emphasis:
		return element("i", inner)
	}
	return element("s", inner)
}

func (telegram) link(url, inner, label string) string {
	return `<a href="` + stdhtml.EscapeString(url) + `">` + inner + "</a>"
}

func (telegram) fence(language, code string) block {
	code = escaped(code)
	if language != "" {
		code = `<code class="language-` + language + `">` + code + "</code>"
	}
	return rawBlock(element("pre", code))
}

const quoteOpen, quoteClose = "<blockquote>", "</blockquote>"

// quote opens up the quotes inside.
func (telegram) quote(inner []block) block {
	text := strings.NewReplacer(quoteOpen, "", quoteClose, "").Replace(joined(inner))
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return rawBlock(quoteOpen + text + quoteClose)
}
