package tui

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/message"
)

// leaveTime is how soon the second Ctrl-C has to come.
const leaveTime = 3 * time.Second

const leaveNote = "Ctrl-C again leaves"

// key handles one key.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	m.note = ""
	switch {
	case k == "ctrl+c":
		return m.interrupt(time.Now())
	case k == "ctrl+d" && m.input.empty():
		m.quitting = true
		return nil
	case k == "ctrl+l":
		return tea.ClearScreen
	case m.pick != nil:
		return m.pickKey(k)
	case m.card.first() != nil && m.card.armed:
		return m.cardKey(k, msg)
	case k == "tab":
		return m.tab()
	case k == "enter":
		return m.enter()
	case k == "up" && m.input.earlier(), k == "down" && m.input.later():
		return nil
	}
	m.card.serial++ // the person writes: a request waits for Tab
	return m.input.update(msg)
}

// calmMsg comes when a Ctrl-C was too long ago for a second one to leave.
type calmMsg struct{ pressed time.Time }

// interrupt stops the answer, or empties the input; a second one leaves.
func (m *model) interrupt(now time.Time) tea.Cmd {
	if !m.leaving.IsZero() && now.Sub(m.leaving) < leaveTime {
		m.quitting = true
		return nil
	}
	m.leaving = now
	m.note = leaveNote
	switch {
	case m.pick != nil:
		m.pick = nil
	case m.talk.running && m.link == connected:
		m.conn.stop()
	case !m.input.empty():
		m.input.clear(m.input.text())
	}
	return m.net.after(leaveTime, calmMsg{now})
}

// calm takes the note of a Ctrl-C away.
func (m *model) calm(msg calmMsg) {
	if m.leaving.Equal(msg.pressed) && m.note == leaveNote {
		m.note = ""
	}
}

// cardKey handles a key while a request is answered.
func (m *model) cardKey(k string, msg tea.KeyPressMsg) tea.Cmd {
	if c, ok := m.card.answer(k); ok {
		return m.decide(c)
	}
	switch k {
	case "d":
		return m.decide(choice{})
	case "s":
		m.card.scopes = true
	case "esc":
		if m.card.scopes {
			m.card.scopes = false
		} else {
			m.card.armed = false
		}
	case "tab":
		m.card.armed = false
	default:
		m.note = "a, s or d answers the request; Esc lets you write"
	}
	return nil
}

// tab turns to the request, or completes.
func (m *model) tab() tea.Cmd {
	if m.card.first() != nil && !strings.HasPrefix(m.input.area.Value(), "/") {
		m.card.armed = true
		return nil
	}
	return m.complete()
}

// enter sends what is written.
func (m *model) enter() tea.Cmd {
	text := m.input.text()
	if line, ok := strings.CutSuffix(m.input.area.Value(), `\`); ok && len(m.input.pastes) == 0 {
		m.input.set(line + "\n")
		return nil
	}
	if cmd, ok := m.command(text); ok {
		return cmd
	}
	m.say(text)
	return nil
}

// say sends a message, with the files that are attached.
func (m *model) say(text string) {
	switch {
	case m.uploads > 0:
		m.note = "a file is still on its way"
		return
	case strings.TrimSpace(text) == "" && len(m.files) == 0:
		return
	case len(text) > message.MaxText:
		m.note = fmt.Sprintf("the message has %d bytes, and %d are allowed: put the text into a file and /attach it", len(text), message.MaxText)
		return
	}
	s := &said{key: rand.Text(), text: text, own: true}
	var handles []string
	for _, f := range m.files {
		handles, s.files = append(handles, f.Handle), append(s.files, f.Name)
	}
	if !m.conn.send(s.key, text, handles) {
		m.note = "too many messages wait for the connection"
		return
	}
	m.talk.waiting = append(m.talk.waiting, s)
	m.files = nil
	m.input.clear(text)
}
