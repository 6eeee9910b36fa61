package builtin

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of the text of a page, which may be longer than the page: a short link becomes a long one when it is made absolute.
const (
	maxPageText = 4 << 20
	maxTarget   = 1024
	maxLinks    = 5000 // with their targets; resolving costs microseconds each
)

// htmlText turns a page into plain text with just enough Markdown to keep its meaning: headings, list items,
// links with their absolute targets, preformatted text as it is. It reads tokens, not a tree, so its cost is
// linear in the page whatever the nesting.
func htmlText(page string, base *url.URL) string {
	w := &textWriter{base: base}
	z := html.NewTokenizer(strings.NewReader(page))
	for w.b.Len() < maxPageText {
		switch kind := z.Next(); kind {
		case html.ErrorToken: // the end, as far as it could be read
			return w.String()
		case html.TextToken:
			w.text(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			w.open(token)
			if kind == html.SelfClosingTagToken && token.DataAtom == atom.Svg {
				w.close(token.DataAtom) // in HTML the slash closes foreign elements only
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			w.close(atom.Lookup(name))
		}
	}
	return w.String()
}

// textWriter collects text with the white space of a browser.
type textWriter struct {
	base    *url.URL
	b       strings.Builder
	hidden  atom.Atom // the element whose content is not shown
	nested  int       // elements of that name inside it
	pre     int       // depth of preformatted elements
	breaks  int       // line breaks that are due before the next text
	space   bool      // a space is due before the next text
	links   []string  // targets of the open links
	targets int       // links resolved so far
	started bool
}

func (w *textWriter) open(t html.Token) {
	if w.hidden != 0 {
		if t.DataAtom == w.hidden {
			w.nested++
		}
		return
	}
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object:
		w.hidden = t.DataAtom
	case atom.A:
		w.openLink(attribute(t, "href"))
	case atom.Img:
		if alt := attribute(t, "alt"); alt != "" {
			w.text("[image: " + alt + "]")
		}
	case atom.Br:
		w.breaks = min(w.breaks+1, 2)
	case atom.Pre:
		w.block(2)
		w.pre++
	case atom.Li:
		w.block(1)
		w.write("- ")
	case atom.Td, atom.Th:
		w.text(" ")
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.block(2)
		w.write(strings.Repeat("#", int(t.Data[1]-'0')) + " ")
	default:
		w.block(blockBreaks(t.DataAtom))
	}
}

func (w *textWriter) close(a atom.Atom) {
	if w.hidden != 0 {
		if a == w.hidden {
			if w.nested == 0 {
				w.hidden = 0
			} else {
				w.nested--
			}
		}
		return
	}
	switch a {
	case atom.A:
		w.closeLink()
	case atom.Pre:
		w.pre = max(w.pre-1, 0)
		w.block(2)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.block(2)
	case atom.Li:
		w.block(1)
	default:
		w.block(blockBreaks(a))
	}
}

// blockBreaks is the number of line breaks around an element; 0 for inline elements.
func blockBreaks(a atom.Atom) int {
	switch a {
	case atom.P, atom.Ul, atom.Ol, atom.Dl, atom.Blockquote, atom.Table, atom.Hr, atom.Title, atom.Section, atom.Article:
		return 2
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Header, atom.Footer, atom.Nav, atom.Main, atom.Aside, atom.Form,
		atom.Option, atom.Fieldset, atom.Figure, atom.Figcaption, atom.Details, atom.Summary, atom.Body, atom.Head:
		return 1
	}
	return 0
}

func (w *textWriter) block(breaks int) { w.breaks = max(w.breaks, breaks) }

func (w *textWriter) openLink(target string) {
	absolute := w.absolute(strings.TrimSpace(target))
	w.links = append(w.links, absolute)
	if absolute != "" {
		w.write("[")
	}
}

// absolute resolves a link to another page; it returns "" for others, such as scripts and anchors.
func (w *textWriter) absolute(target string) string {
	if target == "" || strings.HasPrefix(target, "#") || w.targets == maxLinks {
		return ""
	}
	w.targets++
	u, err := w.base.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return ""
	}
	if text := u.String(); len(text) <= maxTarget {
		return text
	}
	return ""
}

func (w *textWriter) closeLink() {
	if len(w.links) == 0 {
		return
	}
	target := w.links[len(w.links)-1]
	w.links = w.links[:len(w.links)-1]
	if target != "" {
		w.b.WriteString("](" + target + ")")
	}
}

// text adds the text of an element.
func (w *textWriter) text(s string) {
	if w.hidden != 0 {
		return
	}
	if w.pre > 0 {
		w.write(s)
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		w.space = w.space || s != ""
		return
	}
	w.space = w.space || isSpace(s[0])
	w.write(strings.Join(words, " "))
	w.space = isSpace(s[len(s)-1])
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\n\r\f", c) >= 0 }

// write adds s after the white space that is due.
func (w *textWriter) write(s string) {
	w.flush()
	w.b.WriteString(s)
	w.started = true
}

func (w *textWriter) flush() {
	if w.started {
		switch {
		case w.breaks > 0:
			w.b.WriteString(strings.Repeat("\n", w.breaks))
		case w.space:
			w.b.WriteByte(' ')
		}
	}
	w.breaks, w.space = 0, false
}

func (w *textWriter) String() string { return strings.TrimSpace(w.b.String()) }

func attribute(t html.Token, key string) string {
	for _, a := range t.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
