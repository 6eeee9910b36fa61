package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// tabStop is the width of a column of tabs.
const tabStop = 4

// reset ends all styles.
const reset = "\x1b[0m"

// Width returns the number of cells of a line with styles. Where terminals differ, as they do for joined emoji, it returns the largest, so
// that a line that is measured by it fits everywhere.
func Width(s string) int {
	width := 0
	for s != "" {
		if style := styleAt(s); style > 0 {
			s = s[style:]
			continue
		}
		var cells int
		_, s, cells = next(s)
		width += cells
	}
	return width
}

// next returns the first letter of s, what follows it, and its width.
func next(s string) (letter, rest string, width int) {
	letter, rest, width, _ = uniseg.FirstGraphemeClusterInString(s, -1)
	if len(letter) > 1 && utf8.RuneCountInString(letter) > 1 {
		sum := 0
		for _, r := range letter {
			sum += uniseg.StringWidth(string(r))
		}
		width = max(width, sum)
	}
	return letter, rest, width
}

// styleAt returns the length of the style at the beginning of s, ESC [ digits m, or 0.
func styleAt(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	end := 2 + len(s) - 2 - len(strings.TrimLeft(s[2:], "0123456789;"))
	if end < len(s) && s[end] == 'm' {
		return end + 1
	}
	return 0
}

// Wrap breaks text into lines of at most width cells, at spaces where it can; those that it adds begin with hang. Styles end with each line
// and begin again on the next, and tabs become spaces. A width below 1 means no bound but that of the text's own line ends.
func Wrap(text string, width int, hang string) []string {
	if hang = strings.ReplaceAll(hang, "\t", " "); width > 0 && Width(hang) >= width {
		hang = ""
	}
	w := &wrapper{width: width, hang: hang}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			w.end()
			w.begin("")
		}
		w.add(line)
	}
	w.end()
	return w.lines
}

// wrapper is a text that is being wrapped.
type wrapper struct {
	width  int
	hang   string
	lines  []string
	line   strings.Builder
	cells  int      // of line
	styles []string // that are on
	// space is where line was last followed by a space, or 0; stylesAt are the styles that were on there.
	space, spaceEnd, spaceCells int
	stylesAt                    []string
	drop                        bool // spaces at the beginning of an added line
}

func (w *wrapper) add(s string) {
	for s != "" {
		if n := styleAt(s); n > 0 {
			w.style(s[:n])
			s = s[n:]
			continue
		}
		letter, rest, cells := next(s)
		s = rest
		if letter == "\t" {
			cells = tabStop - w.cells%tabStop
			letter = strings.Repeat(" ", cells)
		}
		w.put(letter, cells)
	}
}

func (w *wrapper) put(letter string, cells int) {
	blank := strings.Trim(letter, " ") == ""
	if blank && w.drop {
		return
	}
	if w.width > 0 && w.cells+cells > w.width && w.cells > 0 {
		if blank {
			w.end()
			w.begin(w.hang)
			w.drop = true
			return
		}
		w.wrap()
	}
	if w.drop = false; blank && w.cells > 0 {
		w.space, w.spaceCells, w.stylesAt = w.line.Len(), w.cells, slices.Clone(w.styles)
	}
	w.line.WriteString(letter)
	w.cells += cells
	if blank {
		w.spaceEnd = w.line.Len()
	}
}

// wrap ends the line at its last space, or here if that would leave most of the line empty.
func (w *wrapper) wrap() {
	if w.space == 0 || w.spaceEnd < w.space || w.spaceCells < w.width/3 {
		w.end()
		w.begin(w.hang)
		return
	}
	text, styles := w.line.String(), w.styles
	rest := text[w.spaceEnd:]
	w.line.Reset()
	w.line.WriteString(text[:w.space])
	w.styles = w.stylesAt
	w.end()
	w.begin(w.hang)
	w.styles = styles
	w.line.WriteString(rest)
	w.cells += Width(rest)
}

func (w *wrapper) begin(hang string) {
	w.line.WriteString(hang)
	w.cells = Width(hang)
	for _, s := range w.styles {
		w.line.WriteString(s)
	}
}

func (w *wrapper) end() {
	if len(w.styles) > 0 {
		w.line.WriteString(reset)
	}
	w.lines = append(w.lines, strings.TrimRight(w.line.String(), " "))
	w.line.Reset()
	w.cells, w.space, w.spaceEnd, w.drop = 0, 0, 0, false
}

// style notes which styles are on.
func (w *wrapper) style(s string) {
	w.line.WriteString(s)
	switch code := s[2 : len(s)-1]; code {
	case "", "0":
		w.styles = nil
	case "22":
		w.off("1", "2")
	case "23":
		w.off("3")
	case "24":
		w.off("4")
	case "27":
		w.off("7")
	case "29":
		w.off("9")
	case "39":
		w.off("31", "32", "33", "34", "35", "36", "90")
	default:
		w.styles = append(slices.Clone(w.styles), s)
	}
}

func (w *wrapper) off(codes ...string) {
	w.styles = slices.DeleteFunc(slices.Clone(w.styles), func(s string) bool { return slices.Contains(codes, s[2:len(s)-1]) })
}
