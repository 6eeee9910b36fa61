package markdown

import (
	stdhtml "html"
	"strings"
)

// telegram is the subset in https://core.telegram.org/bots/api#html-style: code contains no other formats and may be only in a quote, and
// quotes are not nested.
type telegram struct{ plain }

// prepare removes formats that are not allowed around code.
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

// quote flattens nested quotes.
func (telegram) quote(inner []block) block {
	text := strings.NewReplacer(quoteOpen, "", quoteClose, "").Replace(joined(inner))
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return rawBlock(quoteOpen + text + quoteClose)
}
