package builtin

import (
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// maxWork bounds the pages whose article is looked for, as work counts it: others are shown whole. A megabyte takes a second at the worst.
const maxWork = 8 << 20

// article returns the text of a page's article, without menus and the like; ok is false for a page that has none, such as a list.
func article(page string, base *url.URL) (text string, ok bool) {
	doc, err := html.Parse(strings.NewReader(page)) // bounds the depth
	if err != nil || work(doc) > maxWork {
		return "", false
	}
	p := readability.NewParser()
	if !p.CheckDocument(doc) {
		return "", false
	}
	a, err := p.ParseAndMutate(doc, base)
	if err != nil || a.Node == nil {
		return "", false
	}
	var b strings.Builder
	if err := a.RenderHTML(&b); err != nil {
		return "", false
	}
	if text = htmlText(b.String(), base); text == "" {
		return "", false
	}
	if title := strings.Join(strings.Fields(a.Title()), " "); title != "" {
		text = "# " + title + "\n\n" + text
	}
	return text, true
}

// work is what it costs to look for an article: the text of each element is read again for those around it.
func work(doc *html.Node) (sum int) {
	depth := 0
	for n := doc; n != nil; {
		sum += depth * (16 + len(n.Data))
		if n.FirstChild != nil {
			n, depth = n.FirstChild, depth+1
			continue
		}
		for n != nil && n.NextSibling == nil {
			n, depth = n.Parent, depth-1
		}
		if n != nil {
			n = n.NextSibling
		}
	}
	return sum
}
