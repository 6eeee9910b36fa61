package main

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// breaks are the elements on separate lines.
var breaks = map[atom.Atom]string{
	atom.P: "\n\n", atom.Div: "\n", atom.Br: "\n", atom.Tr: "\n", atom.Li: "\n- ", atom.Ul: "\n", atom.Ol: "\n", atom.Table: "\n", atom.Hr: "\n",
	atom.H1: "\n\n", atom.H2: "\n\n", atom.H3: "\n\n", atom.H4: "\n\n", atom.H5: "\n\n", atom.H6: "\n\n", atom.Pre: "\n", atom.Blockquote: "\n",
}

// hidden are the elements whose text is not visible.
func hidden(a atom.Atom) bool {
	return a == atom.Script || a == atom.Style || a == atom.Title || a == atom.Template || a == atom.Noscript
}

// textOfHTML returns the text that a person sees, with what is quoted marked by "> ". It reads tags as they come and needs no tree: the markup of a
// stranger may nest as deep as it likes.
func textOfHTML(source string) string {
	z := html.NewTokenizer(strings.NewReader(source))
	z.SetMaxBuf(maxText)
	out := &flow{}
	var hide atom.Atom // the hidden element that is open
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return out.String()
		}
		t := z.Token()
		switch {
		case hide != 0:
			if kind == html.EndTagToken && t.DataAtom == hide {
				hide = 0
			}
		case kind == html.StartTagToken && hidden(t.DataAtom):
			hide = t.DataAtom
		case kind == html.TextToken:
			out.text(t.Data)
		case kind == html.StartTagToken || kind == html.SelfClosingTagToken:
			out.open(breaks[t.DataAtom])
			out.space = out.space || t.DataAtom == atom.Td || t.DataAtom == atom.Th
			if t.DataAtom == atom.Blockquote && kind == html.StartTagToken {
				out.depth++
			}
		case kind == html.EndTagToken:
			if t.DataAtom == atom.Blockquote && out.depth > 0 {
				out.flush()
				out.depth--
			}
			if t.DataAtom != atom.Br && t.DataAtom != atom.Li {
				out.open(breaks[t.DataAtom])
			}
		}
	}
}

// flow puts words on lines.
type flow struct {
	done  strings.Builder
	line  strings.Builder
	space bool // a space is owed before the next word
	blank bool // the last line was empty
	depth int  // of quotation
}

// text adds words; white space between them is one space.
func (f *flow) text(s string) {
	for i, word := range strings.Fields(s) {
		first := strings.TrimLeft(s, " \t\r\n\f")
		if (i > 0 || f.space || len(first) < len(s)) && f.line.Len() > 0 && !strings.HasSuffix(f.line.String(), " ") {
			f.line.WriteByte(' ')
		}
		f.line.WriteString(word)
		f.space = false
	}
	f.space = f.space || strings.TrimRight(s, " \t\r\n\f") != s
}

// open begins a new line, with an empty one before it or a mark on it.
func (f *flow) open(how string) {
	if how == "" {
		return
	}
	f.flush()
	if strings.HasPrefix(how, "\n\n") && !f.blank && f.done.Len() > 0 {
		f.end("")
	}
	f.line.WriteString(strings.TrimLeft(how, "\n"))
}

func (f *flow) flush() {
	f.space = false
	if line := strings.TrimSpace(f.line.String()); line != "" && line != "-" {
		f.end(line)
	}
	f.line.Reset()
}

// maxDepth bounds the marks before a quoted line.
const maxDepth = 8

func (f *flow) end(line string) {
	f.blank = line == ""
	if mark := strings.Repeat(">", min(f.depth, maxDepth)); mark != "" {
		line = strings.TrimSpace(mark + " " + line)
	}
	f.done.WriteString(line)
	f.done.WriteByte('\n')
}

// String returns the text so far.
func (f *flow) String() string {
	f.flush()
	return strings.TrimSpace(f.done.String())
}
