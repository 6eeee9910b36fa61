package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/internal/terminal"
)

// inputRows bounds the lines of the input on the screen.
const inputRows = 8

// View implements tea.Model: the live part, from the answer that streams down to the status line. It is always lower than the screen.
func (m *model) View() tea.View {
	if m.quitting || m.width == 0 {
		return tea.NewView("")
	}
	bottom, cursor := m.bottom()
	room := max(m.height-1-len(bottom), 0)
	lines := append(m.top(), m.middle(room)...)
	if cursor != nil {
		cursor.Y += len(lines)
	}
	lines = append(lines, bottom...)
	if over := len(lines) - max(m.height-max(m.print.printing, 1), 1); over > 0 {
		lines = lines[over:]
		if cursor != nil {
			cursor.Y = max(cursor.Y-over, 0)
		}
	}
	m.frame.see(len(lines))
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = cursor
	return v
}

// tail returns the last n lines.
func tail(lines []string, n int) []string { return lines[max(len(lines)-max(n, 0), 0):] }

// cardRoom is how many lines a request may take.
func (m *model) cardRoom() int { return max(m.height-6, 3) }

// top is what the agent does: its text and its calls.
func (m *model) top() []string {
	t := m.talk
	var out []string
	if text := t.stream.live(); text != "" {
		out = append(out, "")
		out = append(out, m.live(text)...)
	}
	if len(t.calls) > 0 {
		out = append(out, "")
	}
	for _, c := range t.calls {
		out = append(out, c.running(t.paper)...)
	}
	return out
}

// live lays out the streaming text, and remembers it: most messages change something else.
func (m *model) live(text string) []string {
	if m.cache.text != text || m.cache.width != m.width {
		m.cache = liveCache{text: text, width: m.width, lines: m.talk.markdown(text)}
	}
	return m.cache.lines
}

type liveCache struct {
	text  string
	width int
	lines []string
}

// middle is what waits for the person, or for the host, in at most room lines.
func (m *model) middle(room int) []string {
	p := m.talk.paper
	out := []string{""}
	for _, s := range m.talk.waiting {
		word := "waits: "
		if !s.accepted && m.link != connected {
			word = "is sent with the next connection: "
		}
		out = append(out, p.firstLine(p.dim("  "+word+p.short(s.text, max(m.width-len(word)-4, 4)))))
	}
	if m.card.first() != nil {
		out = append(out, m.card.view(p, min(m.cardRoom(), max(room-1, 3)))...)
	}
	if m.pick != nil {
		out = append(out, m.pick.view(p, min(m.cardRoom(), max(room-1, 3)))...)
	}
	return tail(out, room)
}

// bottom is the input and the status line.
func (m *model) bottom() ([]string, *tea.Cursor) {
	p := m.talk.paper
	var out []string
	if line := m.filesLine(); line != "" {
		out = append(out, p.firstLine(p.dim(line)))
	}
	rows, cursor := m.input.lay(m.width-2, min(inputRows, max(m.height/3, 1)))
	for i, row := range rows {
		mark := "  "
		if i == 0 {
			mark = p.cyan("› ")
		}
		rows[i] = mark + row
	}
	if cursor != nil {
		cursor.X += 2
		cursor.Y += len(out)
	}
	if m.pick != nil || m.card.first() != nil && m.card.armed {
		cursor = nil
	}
	out = append(out, rows...)
	return append(out, m.status()), cursor
}

func (m *model) filesLine() string {
	var names []string
	for _, f := range m.files {
		names = append(names, m.talk.short(f.Name, 40))
	}
	if m.uploads > 0 {
		names = append(names, "…")
	}
	if len(names) == 0 {
		return ""
	}
	return "  attached: " + strings.Join(names, ", ")
}

// status is the last line: a note, or what the conversation does.
func (m *model) status() string {
	p := m.talk.paper
	if m.note != "" {
		return p.firstLine(p.yellow(strings.ReplaceAll(terminal.Reveal(m.note), "\n", " ")))
	}
	parts := []string{m.state(), p.short(m.conversation, 30)}
	if m.talk.agent != "" {
		parts = append(parts, p.short(m.talk.agent, 30))
	}
	if m.others > 0 {
		parts = append(parts, plural(m.others, "request")+" of other conversations")
	}
	return p.firstLine(p.dim(strings.Join(parts, " · ")))
}

func (m *model) state() string {
	switch {
	case m.link == connecting:
		return "connecting"
	case m.link == away:
		return "connection lost, trying again"
	case m.card.first() != nil:
		return "waits for you"
	case m.talk.running:
		return "answering, Ctrl-C stops"
	case m.talk.pending():
		return "sending"
	}
	return "ready"
}
