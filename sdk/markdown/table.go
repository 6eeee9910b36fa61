package markdown

import (
	"strings"

	"github.com/rivo/uniseg"
	extast "github.com/yuin/goldmark/extension/ast"
)

// table is a table; the first row is its head.
type table struct {
	align []extast.Alignment
	rows  [][][]run
}

// maxColumn is the width up to which columns are aligned.
const maxColumn = 60

func (w *writer) table(n *extast.Table) table {
	t := table{align: n.Alignments}
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells [][]run
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, w.inline(cell, run{}, nil))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// columns returns a table as text with aligned columns.
func columns(t table) string {
	p := &writer{form: plain{}}
	cells, widths := make([][]string, len(t.rows)), make([]int, len(t.align))
	for i, row := range t.rows {
		for j, runs := range row[:min(len(row), len(widths))] {
			text := p.inlines(runs)
			cells[i] = append(cells[i], text)
			widths[j] = min(max(widths[j], uniseg.StringWidth(text)), maxColumn)
		}
	}
	var out []string
	for i, row := range cells {
		for j := range row {
			row[j] = pad(row[j], widths[j], t.align[j])
		}
		out = append(out, strings.TrimRight(strings.Join(row, " | "), " "))
		if i == 0 {
			out = append(out, underline(widths))
		}
	}
	return strings.Join(out, "\n")
}

func underline(widths []int) string {
	parts := make([]string, len(widths))
	for i, width := range widths {
		parts[i] = strings.Repeat("-", max(width, 1))
	}
	return strings.Join(parts, "-+-")
}

func pad(s string, width int, align extast.Alignment) string {
	return aligned(s, max(width-uniseg.StringWidth(s), 0), align)
}

// aligned puts room spaces around s.
func aligned(s string, room int, align extast.Alignment) string {
	switch align {
	case extast.AlignRight:
		return strings.Repeat(" ", room) + s
	case extast.AlignCenter:
		return strings.Repeat(" ", room/2) + s + strings.Repeat(" ", room-room/2)
	}
	return s + strings.Repeat(" ", room)
}
