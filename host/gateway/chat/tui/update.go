package tui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/message"
)

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	m.gather()
	if m.print.printing == 0 {
		m.frame.look()
	}
	if m.quitting {
		return m, tea.Quit
	}
	return m, tea.Batch(cmd, m.print.next(m.height-m.frame.tallest))
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.resize(msg)
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.pick == nil {
			m.card.armed = false
			m.input.add(msg.Content)
		}
	case framesMsg:
		return m.frames(msg)
	case printedMsg:
		m.print.printing = 0
		m.frame.printed++
	case armMsg:
		if msg.serial == m.card.serial && m.input.empty() && m.pick == nil {
			m.card.armed = true
		}
	case calmMsg:
		m.calm(msg)
	case listedMsg:
		m.listed(msg)
	case uploadedMsg:
		m.uploaded(msg)
	case completedMsg:
		m.completed(msg)
	default:
		return m.input.update(msg)
	}
	return nil
}

func (m *model) resize(msg tea.WindowSizeMsg) tea.Cmd {
	first := m.width == 0
	m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
	m.talk.width = m.width
	if first {
		return m.conn.listen()
	}
	return nil
}

// frames takes what came over a connection.
func (m *model) frames(msg framesMsg) tea.Cmd {
	if msg.from != m.conn {
		if msg.ended {
			return nil
		}
		return msg.from.listen() // until it has ended
	}
	var cmds []tea.Cmd
	for _, u := range msg.updates {
		cmds = append(cmds, m.update(u))
	}
	for _, err := range msg.errs {
		m.talk.emitNote("that could not be sent: " + err.Error())
	}
	if msg.ended {
		m.failed, m.quitting = msg.err, true
		return nil
	}
	return tea.Batch(append(cmds, msg.from.listen())...)
}

func (m *model) update(u link.Update) tea.Cmd {
	if u.Lost != nil {
		m.link = away
		return nil
	}
	f := u.Frame
	switch f.Type {
	case gateway.TypeWelcome:
		m.intro = f.Intro
	case gateway.TypeHistory:
		m.history(f)
	case gateway.TypeEvent:
		if f.Event != nil {
			m.talk.event(*f.Event)
		}
	case gateway.TypeAccepted:
		m.talk.accept(f.ID)
	case gateway.TypeApprovals:
		return m.approvals(f.Approvals)
	case gateway.TypeError:
		m.refused(f)
	}
	return nil
}

// history shows the past of a conversation once, and later what was missed.
func (m *model) history(f gateway.ServerFrame) {
	if m.link == connecting {
		for _, e := range f.Entries {
			if e.From == gateway.FromUser {
				m.input.remember(e.Text)
			}
		}
		m.talk.emit([]string{m.talk.firstLine(m.talk.dim("── " + m.talk.short(m.conversation, 40) + " ──"))})
		m.introduce(len(f.Entries) == 0)
	}
	m.link = connected
	m.talk.history(f.Entries, f.Live)
}

// introduce shows what to try in an empty conversation; Up brings it into the input.
func (m *model) introduce(empty bool) {
	if m.intro == nil || !empty || m.intro.Text() == "" {
		return
	}
	m.talk.emit(m.talk.text("", "", m.intro.Text()))
	for i := len(m.intro.Try) - 1; i >= 0; i-- {
		m.input.remember(m.intro.Try[i].Text)
	}
}

// refused shows an error of the gateway. A message that it refuses comes back into the input.
func (m *model) refused(f gateway.ServerFrame) {
	m.talk.emitNote("flynn says: " + f.Message)
	s := m.talk.find(f.ID)
	if f.ID == "" || s == nil {
		return
	}
	m.talk.waiting = slices.DeleteFunc(m.talk.waiting, func(w *said) bool { return w == s })
	if m.input.empty() {
		m.input.add(s.text)
	}
}

// armMsg comes when a request has been on the screen for armTime.
type armMsg struct{ serial int }

// approvals takes the open requests; those of other conversations are only counted.
func (m *model) approvals(list []gateway.Approval) tea.Cmd {
	here := string(message.NewConversationKey(gateway.ChannelTerminal, m.conversation))
	var mine []gateway.Approval
	for _, a := range list {
		if a.Session.Parse().Scope == here {
			mine = append(mine, a)
		}
	}
	m.others = len(list) - len(mine)
	fresh, elsewhere := m.card.take(mine)
	if elsewhere {
		m.talk.emitNote("the request was answered elsewhere, or is over")
	}
	if fresh {
		return m.arm()
	}
	return nil
}

// arm shows the first request, and lets keys answer it when no key came for a while.
func (m *model) arm() tea.Cmd {
	a := m.card.first()
	if a == nil {
		return nil
	}
	if body := m.card.lines(m.talk.paper); len(body) > m.cardRoom()-3 && m.card.tell(a.ID) {
		m.talk.emit(append([]string{m.talk.yellow("The whole request:")}, body...))
	}
	return m.net.after(armTime, armMsg{m.card.serial})
}

// decide answers the first request.
func (m *model) decide(c choice) tea.Cmd {
	a := m.card.first()
	if m.link != connected || !m.conn.decide(a.ID, c.grant, c.scope) {
		m.note = "not connected: the request waits"
		return nil
	}
	p := m.talk.paper
	word := p.red("✗ ") + "denied: "
	if c.grant {
		word = p.green("✓ ") + "approved, " + p.short(c.label, 60) + ": "
	}
	m.talk.emit([]string{p.firstLine(word + p.short(gist(a.Args), max(m.width-20, 10)))})
	m.card.drop()
	return m.arm()
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
