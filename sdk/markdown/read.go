package markdown

import (
	stdhtml "html"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// parse parses a source. The parsers of raw HTML are left out, so that it is text.
func parse(source []byte) ast.Node {
	p := parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewEmphasisParser(), 500),
			util.Prioritized(extension.NewStrikethroughParser(), 500),
			util.Prioritized(extension.NewLinkifyParser(), 999),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(parser.LinkReferenceParagraphTransformer, 100),
			util.Prioritized(extension.NewTableParagraphTransformer(), 200),
		),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	return p.Parse(text.NewReader(source))
}

// run is a stretch of text with the same formatting.
type run struct {
	text  string
	marks mark
	code  bool
	url   string // target of a link
	hard  bool   // a hard line break
}

// mark is a set of formats.
type mark uint8

const (
	strong mark = 1 << iota
	emphasis
	strike
)

// inline appends the runs of a node's children, formatted like as unless they differ.
func (w *writer) inline(n ast.Node, as run, out []run) []run {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		next := as
		switch c := c.(type) {
		case *ast.Text:
			out = w.textRuns(c, as, out)
			continue
		case *ast.String:
			next.text = string(c.Value)
			out = append(out, next)
			continue
		case *ast.CodeSpan:
			next.code, next.text = true, w.codeText(c)
			out = append(out, next)
			continue
		case *ast.AutoLink:
			next.url, next.text = target(c.URL(w.source)), string(c.Label(w.source))
			if c.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(next.url, "mailto:") {
				next.url = target(append([]byte("mailto:"), c.URL(w.source)...))
			}
			out = append(out, next)
			continue
		case *ast.Emphasis:
			next.marks |= emphasis
			if c.Level > 1 {
				next.marks = as.marks | strong
			}
		case *extast.Strikethrough:
			next.marks |= strike
		case *ast.Link:
			out = w.link(c, c.Destination, as, out)
			continue
		case *ast.Image:
			out = w.link(c, c.Destination, as, out)
			continue
		}
		out = w.inline(c, next, out)
	}
	return out
}

// link appends the text of a link or a picture. If its target is not allowed, that follows as text.
func (w *writer) link(n ast.Node, destination []byte, as run, out []run) []run {
	next, before := as, len(out)
	next.url = target(destination)
	if as.url != "" { // a picture in a link
		next.url = as.url
	}
	out = w.inline(n, next, out)
	label := out[before:]
	switch written := resolve(string(destination)); {
	case next.url != "" && textOf(label) == "":
		next.text = next.url
		out = append(out[:before], next)
	case next.url == "" && written != "" && textOf(label) != written:
		next.text = " (" + written + ")"
		out = append(out, next)
	}
	return out
}

func (w *writer) textRuns(t *ast.Text, as run, out []run) []run {
	as.text = string(t.Segment.Value(w.source))
	if !t.IsRaw() {
		as.text = resolve(as.text)
	}
	if as.text != "" {
		out = append(out, as)
	}
	if t.SoftLineBreak() || t.HardLineBreak() {
		as.text, as.code, as.hard = "\n", false, t.HardLineBreak()
		out = append(out, as)
	}
	return out
}

func (w *writer) codeText(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(w.source))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// target returns the target of a link, or "" if it is not allowed: other schemes start programs or mention people.
func target(destination []byte) string {
	url := clean(string(util.URLEscape(destination, true)))
	for _, scheme := range []string{"http://", "https://", "mailto:"} {
		if len(url) > len(scheme) && strings.EqualFold(url[:len(scheme)], scheme) && len(url) <= 2048 && !strings.ContainsAny(url, " \n\t\"<>") {
			return url
		}
	}
	return ""
}

// resolve removes backslashes and decodes entities in one pass, because an entity after a backslash is text.
func resolve(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]):
			i++
			b.WriteByte(s[i])
		case s[i] == '&':
			n := entity(s[i:])
			b.WriteString(clean(stdhtml.UnescapeString(s[i : i+n])))
			i += n - 1
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// entity returns the length of the entity at the beginning of s, or 1.
func entity(s string) int {
	end := strings.IndexByte(s[:min(len(s), 40)], ';')
	if end < 2 || strings.ContainsAny(s[1:end], "& \n\t") {
		return 1
	}
	return end + 1
}

func textOf(runs []run) string {
	var b strings.Builder
	for _, r := range runs {
		b.WriteString(r.text)
	}
	return b.String()
}
