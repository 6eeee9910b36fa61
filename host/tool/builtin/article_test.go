package builtin

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/flynnhost/flynn/host/tool/pdftext"
)

const pdfWord = "serve-pdf"

// news is a page with an article between menus.
func news() string {
	var b strings.Builder
	b.WriteString(`<html><head><title>The bridge opens</title></head><body><header><nav><ul>`)
	for i := range 40 {
		fmt.Fprintf(&b, `<li><a href="/section/%d">Section %d</a></li>`, i, i)
	}
	b.WriteString(`</ul></nav></header><main><article><h1>The bridge opens</h1>`)
	for i := range 8 {
		fmt.Fprintf(&b, `<p>Paragraph %d: the new bridge, which took seven years to build, was opened on Tuesday, with speeches, a band, and <a href="/more">two thousand people</a> who walked over it.</p>`, i)
	}
	b.WriteString(`</article></main><aside class="sidebar"><h3>Subscribe to our newsletter</h3></aside><footer>All rights reserved</footer></body></html>`)
	return b.String()
}

func TestFetchReadsTheArticle(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.Handle("/news", serve("text/html; charset=utf-8", news()))
	mux.Handle("/list", serve("text/html", `<ul><li><a href="/a">A</a><li><a href="/b">B</a></ul>`))
	b := newBench(t, loopback(server))
	r := b.call("web.fetch", args{"url": server.URL + "/news"})
	b.want(r, false, "(the article;", "# The bridge opens\n\n", "Paragraph 0: the new bridge", "Paragraph 7", "[two thousand people]("+server.URL+"/more)")
	for _, menu := range []string{"Section 3", "newsletter", "All rights"} {
		if strings.Contains(r.Text, menu) {
			t.Errorf("the article has %q: %s", menu, r.Text)
		}
	}
	if !slices.Equal(r.Labels, []string{"web:127.0.0.1"}) {
		t.Errorf("labels %q", r.Labels)
	}
	b.want(b.call("web.fetch", args{"url": server.URL + "/news", "whole": true}), false, "Section 3", "newsletter", "Paragraph 7")
	if r := b.call("web.fetch", args{"url": server.URL + "/list"}); strings.Contains(r.Text, "the article") || !strings.Contains(r.Text, "- [A]") {
		t.Errorf("a page without an article: %s", r.Text)
	}
}

// TestArticleTakesHostilePages is TestHTMLTextTakesHostilePages for the search for an article, which reads a tree.
func TestArticleTakesHostilePages(t *testing.T) {
	base, err := url.Parse("https://example.com/" + strings.Repeat("d/", 400))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("word, ", 40)
	for _, piece := range []string{
		"<a href=x>", "<div>", "<p>x,", "<p>" + long + "</p>", "<div><p>" + long + "</p></div>", "<p><a href=x>" + long + "</a></p>", "<br><br>x", "<img src=x>", "<h2>x</h2>",
		"<table><tr><td>" + long + "</td></tr></table>", "<section class=comment><p>" + long + "</p></section>", "<span>" + long + "</span><br>", "<!-- x -->",
		`<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article"}</script>`, "<meta name=a content=b>", "<noscript><img src=x></noscript>",
	} {
		for _, depth := range []int{1, 8, 200} {
			around := "<body>" + strings.Repeat("<div>", depth)
			page := around + strings.Repeat(piece, most(t, around, piece))
			began := time.Now()
			article(page, base)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%.40q in %d took %v", piece, depth, took)
			}
		}
	}
}

// most is how often a piece may stand in a page whose article is looked for.
func most(t *testing.T, around, piece string) int {
	doc := func(n int) int {
		tree, err := html.Parse(strings.NewReader(around + strings.Repeat(piece, n)))
		if err != nil {
			return maxWork + 1 // too deep
		}
		return work(tree)
	}
	if doc(20) > maxWork {
		return 10
	}
	return max(1, min(maxBody/len(piece), 10*(maxWork-doc(10))/max(1, doc(20)-doc(10))*9/10))
}

func FuzzArticle(f *testing.F) {
	f.Add(news())
	f.Add("<body><p>x<table><p>y")
	base, _ := url.Parse("https://x.org/a/")
	f.Fuzz(func(t *testing.T, page string) {
		if text, ok := article(page, base); ok && len(text) > maxPageText+len(page)+2*maxTarget {
			t.Fatalf("%d bytes give %d", len(page), len(text))
		}
	})
}

// pdfPage is a PDF of one page that says Hello there, without compression.
func pdfPage() []byte {
	var b bytes.Buffer
	var at []int
	b.WriteString("%PDF-1.4\n")
	content := "BT /F1 12 Tf 72 720 Td (Hello there) Tj ET"
	for i, text := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [4 0 R] >>", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F1 3 0 R >> >> >>", fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content),
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, text)
	}
	start := b.Len()
	b.WriteString("xref\n0 6\n0000000000 65535 f \n")
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", start)
	return b.Bytes()
}

func TestFetchReadsPDFs(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.Handle("/good", serve("application/pdf", string(pdfPage())))
	mux.Handle("/bad", serve("application/pdf", "now run rm"))
	mux.Handle("/long", serve("application/pdf", strings.Repeat("x", pdftext.MaxFile+1)))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := loopback(server)
	b := newBench(t, c)
	b.want(b.call("web.fetch", args{"url": server.URL + "/good"}), true, "not text") // without a reader
	c.PDF = []string{program, pdfWord}
	b = newBench(t, c)
	r := b.call("web.fetch", args{"url": server.URL + "/good"})
	b.want(r, false, "HTTP 200 OK\n\nHello there")
	if !slices.Equal(r.Labels, []string{"web:127.0.0.1"}) {
		t.Errorf("labels %q", r.Labels)
	}
	b.want(b.call("web.fetch", args{"url": server.URL + "/bad"}), true, "damaged, or encrypted")
	b.want(b.call("web.fetch", args{"url": server.URL + "/long"}), true, "longer than 16777216 bytes")
}
