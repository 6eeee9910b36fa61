package markdown

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// TerminalLine is a line of text for a terminal. It is not wrapped: where it is, the lines that follow begin with Hang.
type TerminalLine struct {
	Text, Hang string
}

// Terminal converts Markdown to lines for a terminal that is width cells wide, on which only tables and rules depend. Styles are those of
// ECMA-48 (ESC [ 1 m), of which each ends on its line, and colours only where colour is true. No other escape sequence, no control character
// and no mark that changes the direction of text is in the result, whatever the source has. Links show their address.
func Terminal(source string, width int, colour bool) []TerminalLine {
	w := &writer{form: terminal{width: max(width, 1), colour: colour}}
	var out []TerminalLine
	for _, l := range spaced(w.all(clean(source)), true) {
		out = append(out, TerminalLine{Text: l.text, Hang: l.hang})
	}
	return out
}

// terminal is the dialect of a terminal: styles instead of marks, and lines that can be wrapped.
type terminal struct {
	plain
	width  int
	colour bool
}

// tame removes what would steer a terminal and came by an entity, which clean does not see.
func tame(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && r != '\u200c' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, s)
}

// styled puts a style around each line of s.
func styled(on, off, s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "\x1b[" + on + "m" + l + "\x1b[" + off + "m"
		}
	}
	return strings.Join(lines, "\n")
}

func (t terminal) dim(s string) string { return styled("2", "22", s) }

func (terminal) text(s string, _, _ rune) string { return tame(s) }

func (t terminal) code(s string, _, _ rune) string {
	if !t.colour {
		return "`" + tame(s) + "`"
	}
	return styled("36", "39", tame(s))
}

func (terminal) mark(m mark, inner string, _, _ rune) string {
	switch m {
	case strong:
		return styled("1", "22", inner)
	case emphasis:
		return styled("3", "23", inner)
	}
	return styled("9", "29", inner)
}

func (t terminal) link(url, inner, label string) string {
	text := styled("4", "24", inner)
	if sameLink(url, label) {
		return text
	}
	return text + " (" + tame(strings.TrimPrefix(url, "mailto:")) + ")"
}

func (t terminal) rule() block { return textBlock(t.dim(strings.Repeat("─", min(t.width, 40)))) }

// fence indents code, so that it can be told from the text around it.
func (t terminal) fence(_, code string) block {
	if code == "" {
		return nil
	}
	var out block
	for text := range strings.SplitSeq(tame(code), "\n") {
		if t.colour {
			text = styled("36", "39", text)
		}
		out = append(out, line{text: "  " + text, hang: "  "})
	}
	return out
}

func (t terminal) quote(inner []block) block {
	bar := t.dim("│") + " "
	return prefixed(spaced(inner, true), bar, bar)
}

func (terminal) list(l list) block {
	var out block
	for i, item := range l.items {
		with := "• "
		if l.ordered {
			with = strconv.Itoa(l.start+i) + ". "
		}
		if i > 0 && !l.tight {
			out = append(out, line{})
		}
		lines := spaced(item, !l.tight)
		if len(lines) == 0 {
			lines = block{{}}
		}
		out = append(out, prefixed(lines, with, strings.Repeat(" ", uniseg.StringWidth(with)))...)
	}
	return out
}

// prefixed puts first before the first line, and rest before the others.
func prefixed(b block, first, rest string) block {
	out := slices.Clone(b)
	for i := range out {
		before := rest
		if i == 0 {
			before = first
		}
		out[i].text, out[i].hang = before+out[i].text, rest+out[i].hang
	}
	return out
}

// table aligns columns if they fit, and else writes each cell on its line, behind the head of its column.
func (t terminal) table(tab table, w *writer) block {
	cells, widths := make([][]string, len(tab.rows)), make([]int, len(tab.align))
	for i, row := range tab.rows {
		for j, runs := range row[:min(len(row), len(widths))] {
			cells[i] = append(cells[i], strings.ReplaceAll(w.inlines(runs), "\n", " "))
			widths[j] = max(widths[j], cellWidth(cells[i][j]), 1)
		}
	}
	total := 3 * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	if total > t.width {
		return t.stacked(cells)
	}
	var out block
	for i, row := range cells {
		for j := range row {
			room := widths[j] - cellWidth(row[j])
			row[j] = aligned(row[j], max(room, 0), tab.align[j])
			if i == 0 {
				row[j] = styled("1", "22", row[j])
			}
		}
		out = append(out, line{text: strings.TrimRight(strings.Join(row, t.dim(" │ ")), " ")})
		if i == 0 {
			out = append(out, line{text: t.dim(strings.ReplaceAll(strings.ReplaceAll(underline(widths), "-+-", "─┼─"), "-", "─"))})
		}
	}
	return out
}

// stacked writes a table that is too wide, one cell a line.
func (t terminal) stacked(cells [][]string) block {
	var out block
	for i, row := range cells[min(1, len(cells)):] {
		if i > 0 {
			out = append(out, line{})
		}
		for j, text := range row {
			if head := cells[0]; j < len(head) && head[j] != "" {
				text = styled("1", "22", head[j]) + ": " + text
			}
			out = append(out, line{text: text, hang: "  "})
		}
	}
	if len(cells) == 1 {
		return textBlock(strings.Join(cells[0], " "))
	}
	return out
}

// cellWidth is the width of text without its styles.
func cellWidth(s string) int {
	width := 0
	for i, part := range strings.Split(s, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		width += uniseg.StringWidth(part)
	}
	return width
}
