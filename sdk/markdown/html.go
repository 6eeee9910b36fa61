package markdown

import (
	stdhtml "html"
	"strconv"
	"strings"

	extast "github.com/yuin/goldmark/extension/ast"
)

// html is the subset of HTML that mail programs and Matrix clients show.
type html struct{}

func (html) prepare(runs []run) []run        { return runs }
func (html) text(s string, _, _ rune) string { return stdhtml.EscapeString(s) }
func (html) code(s string, _, _ rune) string { return element("code", stdhtml.EscapeString(s)) }
func (html) hardBreak() string               { return "<br/>\n" }
func (html) rule() block                     { return rawBlock("<hr/>") }
func (html) paragraph(inner string) block    { return rawBlock(element("p", inner)) }

func (html) mark(m mark, inner string, _, _ rune) string {
	switch m {
	case strong:
		return element("strong", inner)
	case emphasis:
		return element("em", inner)
	}
	return element("del", inner)
}

func (html) link(url, inner, _ string) string {
	return `<a href="` + stdhtml.EscapeString(url) + `">` + inner + "</a>"
}

func (html) heading(level int, inner string) block {
	return rawBlock(element("h"+strconv.Itoa(level), inner))
}

func (html) fence(language, code string) block {
	class := ""
	if language != "" {
		class = ` class="language-` + stdhtml.EscapeString(language) + `"`
	}
	return rawBlock("<pre><code" + class + ">" + stdhtml.EscapeString(code) + "</code></pre>")
}

func (h html) quote(inner []block) block {
	return rawBlock(element("blockquote", "\n"+h.join(inner)+"\n"))
}

func (h html) list(l list) block {
	var b strings.Builder
	for _, item := range l.items {
		inner := h.join(item)
		if rest, ok := strings.CutPrefix(inner, "<p>"); ok && l.tight && strings.Count(inner, "<p>") == 1 {
			inner = strings.Replace(rest, "</p>", "", 1)
		}
		b.WriteString("<li>" + inner + "</li>\n")
	}
	switch {
	case l.ordered && l.start != 1:
		return rawBlock(`<ol start="` + strconv.Itoa(l.start) + "\">\n" + b.String() + "</ol>")
	case l.ordered:
		return rawBlock("<ol>\n" + b.String() + "</ol>")
	}
	return rawBlock("<ul>\n" + b.String() + "</ul>")
}

func (h html) table(t table, w *writer) block {
	var b strings.Builder
	for i, row := range t.rows {
		name := "td"
		if i == 0 {
			name = "th"
		}
		b.WriteString("<tr>")
		for j, cell := range row[:min(len(row), len(t.align))] {
			open := name
			if t.align[j] != extast.AlignNone {
				open += ` align="` + t.align[j].String() + `"`
			}
			b.WriteString("<" + open + ">" + w.inlines(cell) + "</" + name + ">")
		}
		b.WriteString("</tr>\n")
	}
	return rawBlock("<table>\n" + b.String() + "</table>")
}

func (html) join(blocks []block) string {
	var parts []string
	for _, b := range blocks {
		for _, l := range b {
			parts = append(parts, l.text)
		}
	}
	return strings.Join(parts, "\n")
}

func element(name, inner string) string { return "<" + name + ">" + inner + "</" + name + ">" }
