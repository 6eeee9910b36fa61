package tui

import (
	"fmt"
	"math"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/internal/terminal"
)

const (
	// longPaste and widePaste are the lines and bytes from which a paste is shown as a mark.
	longPaste = 12
	widePaste = 2000
	// maxRemembered bounds the messages that Up brings back.
	maxRemembered = 200
)

// input is what the person writes: a few lines of text, in which a long paste is a mark, and the messages of before.
type input struct {
	area   textarea.Model
	pastes []paste
	past   []string
	at     int    // in past; len(past) is the draft
	draft  string // while an earlier message is shown
}

// paste is a long pasted text, and the mark that stands for it.
type paste struct{ mark, text string }

func newInput() input {
	a := textarea.New()
	a.Prompt, a.ShowLineNumbers, a.Placeholder = "", false, "Write a message; /help lists commands"
	a.DynamicHeight, a.MaxContentHeight, a.MaxWidth, a.CharLimit = true, math.MaxInt, 0, 0
	a.SetStyles(textarea.Styles{})
	a.SetVirtualCursor(false)
	a.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	a.KeyMap.Paste.SetEnabled(false) // it would read the clipboard of the machine
	a.KeyMap.CopySelection.SetEnabled(false)
	a.Focus()
	return input{area: a}
}

// text is what is written, with the pastes.
func (in *input) text() string {
	text := in.area.Value()
	for _, p := range in.pastes {
		text = strings.Replace(text, p.mark, p.text, 1)
	}
	return text
}

func (in *input) empty() bool { return in.area.Value() == "" }

func (in *input) set(text string) {
	in.area.SetValue(text)
	in.area.MoveToEnd()
}

// clear empties the input, and remembers what it had.
func (in *input) clear(remember string) {
	if remember != "" && (len(in.past) == 0 || in.past[len(in.past)-1] != remember) {
		in.past = append(in.past, remember)
		in.past = in.past[max(len(in.past)-maxRemembered, 0):]
	}
	in.area.Reset()
	in.pastes, in.draft, in.at = nil, "", len(in.past)
}

// remember takes a message of the history.
func (in *input) remember(text string) {
	if len(text) <= widePaste && strings.TrimSpace(text) != "" {
		in.past = append(in.past, terminal.Clean(text))
		in.past = in.past[max(len(in.past)-maxRemembered, 0):]
		in.at = len(in.past)
	}
}

// add inserts pasted text.
func (in *input) add(text string) {
	text = terminal.Clean(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
	lines := strings.Count(text, "\n") + 1
	if lines <= longPaste && len(text) <= widePaste {
		in.area.InsertString(strings.ReplaceAll(text, "\t", "    "))
		return
	}
	mark := fmt.Sprintf("[pasted text %d: %d lines, %d bytes]", len(in.pastes)+1, lines, len(text))
	in.pastes = append(in.pastes, paste{mark: mark, text: text})
	in.area.InsertString(mark)
}

// earlier shows the message before; later the one after. They report whether there was one.
func (in *input) earlier() bool {
	if in.at == 0 || in.area.Line() > 0 || len(in.pastes) > 0 {
		return false
	}
	if in.at >= len(in.past) {
		in.at, in.draft = len(in.past), in.area.Value()
	}
	in.at--
	in.set(in.past[in.at])
	return true
}

func (in *input) later() bool {
	if in.at >= len(in.past) || in.area.Line() < in.area.LineCount()-1 {
		return false
	}
	if in.at++; in.at == len(in.past) {
		in.set(in.draft)
	} else {
		in.set(in.past[in.at])
	}
	return true
}

func (in *input) update(msg tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	in.area, cmd = in.area.Update(msg)
	return cmd
}

// lay sets the room of the input, and returns its lines and where its cursor is.
func (in *input) lay(width, rows int) ([]string, *tea.Cursor) {
	if width = max(width, 1); in.area.Width() != width || in.area.MaxHeight != rows {
		in.area.MaxHeight = rows
		in.area.SetWidth(width)
		in.update(nil) // scrolls to the cursor
	}
	return strings.Split(in.area.View(), "\n"), in.area.Cursor()
}
