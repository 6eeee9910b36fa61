package markdown

import (
	"strconv"
	"strings"
)

// plain is the dialect of plain text. Other dialects embed it and override what they support.
type plain struct{}

func (plain) prepare(runs []run) []run          { return runs }
func (plain) text(s string, _, _ rune) string   { return s }
func (plain) code(s string, _, _ rune) string   { return s }
func (plain) hardBreak() string                 { return "\n" }
func (plain) rule() block                       { return textBlock("---") }
func (plain) paragraph(inner string) block      { return textBlock(inner) }
func (plain) heading(_ int, inner string) block { return textBlock(inner) }
func (plain) fence(_, code string) block        { return rawBlock(code) }
func (plain) table(t table, _ *writer) block    { return rawBlock(columns(t)) }
func (plain) quote(inner []block) block         { return quoted(opened(inner), "> ") }
func (plain) list(l list) block                 { return listed(l, "- ") }
func (plain) join(blocks []block) string        { return joined(blocks) }

// mark keeps only marks that change the meaning.
func (plain) mark(m mark, inner string, _, _ rune) string {
	if m == strike {
		return "~~" + inner + "~~"
	}
	return inner
}

func (plain) link(url, inner, label string) string {
	if sameLink(url, label) {
		return inner
	}
	return inner + " (" + strings.TrimPrefix(url, "mailto:") + ")"
}

// sameLink reports whether the text of a link shows where it leads.
func sameLink(url, label string) bool {
	bare := func(s string) string {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "mailto:"), "https://")
		return strings.TrimSuffix(strings.TrimPrefix(s, "http://"), "/")
	}
	return bare(url) == bare(label)
}

// textBlock returns a block of lines, without empty ones at its ends.
func textBlock(s string) block {
	var b block
	if s = strings.Trim(s, "\n"); s != "" {
		for text := range strings.SplitSeq(s, "\n") {
			b = append(b, line{text: text})
		}
	}
	return b
}

// rawBlock returns a block whose lines are kept together and not indented.
func rawBlock(s string) block {
	if s == "" {
		return nil
	}
	return block{{text: s, raw: true}}
}

// quoted puts a mark before every line. A raw line ends the quote, which begins again after it.
func quoted(inner []block, with string) block {
	all := spaced(inner, true)
	for i := range all {
		if !all[i].raw {
			all[i].text = strings.TrimRight(with+all[i].text, " ")
		}
	}
	return all
}

// listed writes a list with marks before its items and their other lines indented.
func listed(l list, bullet string) block {
	var out block
	for i, item := range l.items {
		with := bullet
		if l.ordered {
			with = strconv.Itoa(l.start+i) + ". "
		}
		if i > 0 && !l.tight {
			out = append(out, line{})
		}
		lines := spaced(item, !l.tight)
		if len(lines) == 0 || lines[0].raw {
			out = append(out, line{text: strings.TrimRight(with, " ")})
		}
		for j, text := range lines {
			switch {
			case text.raw || text.text == "":
			case j == 0:
				text.text = with + text.text
			default:
				text.text = strings.Repeat(" ", min(len([]rune(with)), 4)) + text.text
			}
			out = append(out, text)
		}
	}
	return out
}

// spaced joins blocks, with an empty line between them if apart.
func spaced(blocks []block, apart bool) block {
	var out block
	for i, b := range blocks {
		if i > 0 && apart {
			out = append(out, line{})
		}
		out = append(out, b...)
	}
	return out
}

func joined(blocks []block) string {
	var out []string
	for _, l := range spaced(blocks, true) {
		out = append(out, l.text)
	}
	return strings.Join(out, "\n")
}

// opened splits raw text into lines, so that it can be quoted.
func opened(blocks []block) []block {
	for i, b := range blocks {
		var out block
		for _, l := range b {
			for text := range strings.SplitSeq(l.text, "\n") {
				out = append(out, line{text: text})
			}
		}
		blocks[i] = out
	}
	return blocks
}
