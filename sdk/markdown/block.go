package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// blocks appends the blocks of a node's children.
func (w *writer) blocks(n ast.Node, depth int, out []block) []block {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Paragraph, *ast.TextBlock:
			out = keep(out, w.paragraph(w.inline(c, run{}, nil)))
		case *ast.Heading:
			out = keep(out, w.form.heading(c.Level, w.inlines(w.inline(c, run{marks: w.headingMarks()}, nil))))
		case *ast.CodeBlock:
			out = keep(out, w.form.fence("", w.lines(c)))
		case *ast.FencedCodeBlock:
			out = keep(out, w.form.fence(language(string(c.Language(w.source))), w.lines(c)))
		case *ast.ThematicBreak:
			out = keep(out, w.form.rule())
		case *extast.Table:
			out = keep(out, w.form.table(w.table(c), w))
		case *ast.Blockquote:
			if depth < maxDepth {
				out = keep(out, w.form.quote(w.blocks(c, depth+1, nil)))
				continue
			}
			out = w.blocks(c, depth, out)
		case *ast.List:
			if depth < maxDepth {
				out = keep(out, w.form.list(w.list(c, depth)))
				continue
			}
			out = w.blocks(c, depth, out)
		default:
			out = w.blocks(c, depth, out)
		}
	}
	return out
}

// keep appends a block unless it is empty.
func keep(out []block, b block) []block {
	if len(b) == 0 {
		return out
	}
	return append(out, b)
}

func (w *writer) paragraph(runs []run) block {
	if strings.TrimSpace(textOf(runs)) == "" {
		return nil
	}
	return w.form.paragraph(w.inlines(runs))
}

// headingMarks returns the marks for a heading's text in a dialect without headings.
func (w *writer) headingMarks() mark {
	switch w.form.(type) {
	case telegram, slack, whatsApp, terminal:
		return strong
	}
	return 0
}

func (w *writer) list(n *ast.List, depth int) list {
	l := list{ordered: n.IsOrdered(), start: n.Start, tight: n.IsTight}
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		l.items = append(l.items, w.blocks(item, depth+1, nil))
	}
	return l
}

// lines returns the lines of a block of code.
func (w *writer) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		b.Write(segment.Value(w.source))
	}
	return strings.TrimRight(b.String(), "\n")
}

// language returns the name of a language if it looks like one.
func language(s string) string {
	if len(s) > 32 || strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789+#._-") != "" {
		return ""
	}
	return s
}
