package doctor

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/internal/terminal"
)

// columns is the width of the terminal that every line fits, except for commands, which stay in one line to be copied.
const columns = 80

// Colours of a terminal, as paint takes them.
const (
	red    = "31"
	yellow = "33"
)

// Lines are the report for people. The last line counts the findings.
func (r Report) Lines(paint func(colour, text string) string) (lines []string) {
	var area Area
	wrong := 0
	for _, f := range r.Findings {
		if f.Area != area {
			area = f.Area
			lines = append(lines, string(area))
		}
		word := "   " + paint(yellow, "weak")
		if !f.Weak {
			word = "  " + paint(red, "wrong")
			wrong++
		}
		lines = append(lines, f.lines(word)...)
	}
	for _, what := range r.Unexamined {
		lines = append(lines, wrapped("not looked at: ", what)...)
	}
	for _, what := range r.Weaker {
		lines = append(lines, wrapped("on this system: ", what)...)
	}
	if len(r.Findings) == 0 {
		return append(lines, "nothing is wrong or weak")
	}
	return append(lines, fmt.Sprintf("%d wrong, %d weak", wrong, len(r.Findings)-wrong), "pages  "+pages())
}

func (f Finding) lines(word string) []string {
	what := f.What
	if f.Line > 0 {
		what = fmt.Sprintf("%s:%d: %s", f.File, f.Line, what)
	}
	lines := append(wrapped(word+"  ", what), wrapped("    why  ", f.Why)...)
	if f.Mend != "" {
		lines = append(lines, wrapped("   mend  ", f.Mend)...)
	}
	if f.Command != "" {
		lines = append(lines, "    run  "+printable(f.Command))
	}
	return append(lines, "   page  "+f.Page)
}

// Mended says what Fix has mended.
func Mended(all []Finding) (lines []string) {
	for _, f := range all {
		lines = append(lines, wrapped(" mended  ", f.What)...)
	}
	return lines
}

// wrapped is a text behind a label, which goes on below its beginning.
func wrapped(label, text string) []string {
	return terminal.Wrap(label+plain(text), columns, strings.Repeat(" ", terminal.Width(label)))
}

// plain is a text of strangers, such as an error of a plugin, in one line.
func plain(text string) string { return strings.Join(strings.Fields(printable(text)), " ") }

// printable is a text that does not move the cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}
