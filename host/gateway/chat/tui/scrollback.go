package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// scrollback is what has to be printed above the live part. Lines are printed in pieces that fit between the top of the screen and the
// live part, one after the other: the renderer makes room by scrolling, and would scroll the live part away with a larger one.
type scrollback struct {
	lines    []string
	printing int // lines of the piece that is being printed
}

// printedMsg comes when a piece was printed.
type printedMsg struct{}

func (s *scrollback) add(lines []string) { s.lines = append(s.lines, lines...) }

// next prints the next piece, of at most room lines.
func (s *scrollback) next(room int) tea.Cmd {
	if s.printing > 0 || len(s.lines) == 0 {
		return nil
	}
	n := min(len(s.lines), max(room, 1))
	text := strings.Join(s.lines[:n], "\n")
	s.lines = s.lines[n:]
	s.printing = n
	if text == "" {
		text = " " // the library prints no empty line
	}
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}
