package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// help lists the commands and keys of the program; those of the host follow from its own /help.
const help = "Keys: Enter sends, Alt-Enter or a \\ at the end of a line begins a new line, Up and Down bring back earlier messages, Tab completes, " +
	"Ctrl-C stops the answer and twice leaves, Ctrl-D leaves.\n" +
	"/attach PATH  send a file with the next message; /attach alone forgets them\n" +
	"/agent        choose who answers\n" +
	"/sessions     list the conversations of this terminal, and switch\n" +
	"/session NAME switch to a conversation, or begin it\n" +
	"/new          begin anew here: the agent does not see what was said before\n" +
	"/undo         undo what the last answer changed in files, after a question\n" +
	"/fork         go on in a new conversation, with a copy of the agent's files\n" +
	"/stop         stop the answer\n" +
	"/quit         leave\n" +
	"/help host    the commands of flynn itself"

// locals are the commands of this program, and those of the host that are completed.
var locals = [...]string{"/agent", "/attach", "/compact", "/forget", "/fork", "/help", "/model", "/new", "/quit", "/session", "/sessions", "/status", "/stop", "/undo"}

// command carries out a command of this program; ok is false for a message.
func (m *model) command(text string) (cmd tea.Cmd, ok bool) {
	line := strings.TrimSpace(text)
	name, arg, _ := strings.Cut(line, " ")
	arg = strings.TrimSpace(arg)
	if !strings.HasPrefix(line, "/") || strings.Contains(line, "\n") {
		return nil, false
	}
	switch {
	case name == "/quit" || name == "/exit":
		m.quitting = true
	case name == "/stop" && m.talk.running:
		m.conn.stop()
	case name == "/help" && arg == "":
		m.talk.emit(m.talk.text("", "", help))
	case name == "/help" && arg == "host":
		m.input.clear(line)
		m.say("/help")
		return nil, true
	case name == "/sessions":
		cmd = m.listSessions()
	case name == "/session":
		m.session(arg)
	case name == "/agent" && arg == "":
		cmd = m.listAgents()
	case name == "/attach":
		cmd = m.attach(arg)
	default:
		return nil, false
	}
	m.input.clear(line)
	if m.switched {
		m.switched = false
		cmd = m.conn.listen()
	}
	return cmd, true
}

// sessionName reports whether a conversation of the terminal can have the name.
func sessionName(s string) bool {
	const signs = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && len(s) <= 64 && strings.Trim(s, signs) == ""
}

// session switches to a conversation.
func (m *model) session(name string) {
	switch {
	case !sessionName(name):
		m.note = "a session's name has letters, digits, '.', '_' and '-': /session NAME"
	case name == m.conversation:
		m.note = "this is " + name
	case m.talk.pending():
		m.note = "a message is still on its way"
	default:
		if err := m.turnTo(name); err != nil {
			m.note = err.Error()
		}
	}
}

// turnTo switches to another conversation. The running turn of this one goes on.
func (m *model) turnTo(name string) error {
	if m.talk.running {
		m.talk.settle(m.talk.stream.text)
		m.talk.emitNote("the answer goes on without you; /session " + m.conversation + " shows it")
	}
	m.gather()
	began := m.talk.began
	if err := m.connect(name); err != nil {
		return err
	}
	m.talk.began = began
	m.switched = true
	return nil
}
