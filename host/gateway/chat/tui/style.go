package tui

import (
	"strings"

	"github.com/flynnhost/flynn/host/internal/terminal"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// style writes text in styles; colours only where they are wanted.
type style struct{ colour bool }

func (s style) bold(text string) string { return "\x1b[1m" + text + "\x1b[22m" }
func (s style) dim(text string) string  { return "\x1b[2m" + text + "\x1b[22m" }

func (s style) coloured(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[39m"
}

func (s style) red(text string) string    { return s.coloured("31", text) }
func (s style) green(text string) string  { return s.coloured("32", text) }
func (s style) yellow(text string) string { return s.coloured("33", text) }
func (s style) cyan(text string) string   { return s.coloured("36", text) }

// paper is what text is laid out on.
type paper struct {
	style
	width int
}

// markdown lays out an agent's text.
func (p paper) markdown(source string) []string {
	var out []string
	for _, l := range markdown.Terminal(terminal.Clean(source), p.width, p.colour) {
		out = append(out, terminal.Wrap(l.Text, p.width, l.Hang)...)
	}
	return out
}

// text lays out other text as it is; what it has of controls is spelt out.
func (p paper) text(first, hang, text string) []string {
	return terminal.Wrap(first+strings.ReplaceAll(terminal.Reveal(text), "\n", "\n"+hang), p.width, hang)
}

// said lays out what a person wrote.
func (p paper) said(text string) []string {
	lines := terminal.Wrap(strings.TrimRight(terminal.Clean(text), "\n"), p.width-2, "")
	for i, l := range lines {
		mark := "  "
		if i == 0 {
			mark = p.cyan("› ")
		}
		lines[i] = mark + p.bold(l)
	}
	return lines
}

// note lays out a dim line of the program itself.
func (p paper) note(text string) []string {
	return terminal.Wrap(p.dim(terminal.Reveal(text)), p.width, "  ")
}

// short is text in one line of at most width cells.
func (p paper) short(text string, width int) string {
	text = strings.Join(strings.Fields(terminal.Reveal(text)), " ")
	if terminal.Width(text) <= width {
		return text
	}
	return terminal.Wrap(text, max(width-1, 1), "")[0] + "…"
}

// clipped is the beginning of a line, with its spaces.
func (p paper) clipped(text string, width int) string {
	text = strings.ReplaceAll(terminal.Reveal(text), "\n", " ")
	if terminal.Width(text) <= width && !strings.Contains(text, "\t") {
		return text
	}
	if len(text) > 4*p.width {
		text = strings.ToValidUTF8(text[:4*p.width], "")
	}
	lines := terminal.Wrap(text, max(width-1, 1), "")
	if len(lines) == 1 {
		return lines[0]
	}
	return lines[0] + "…"
}

// firstLine is the beginning of a line with styles.
func (p paper) firstLine(text string) string { return terminal.Wrap(text, p.width, "")[0] }
