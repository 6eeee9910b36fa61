package tui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
)

// picker is a list of which one line is chosen.
type picker struct {
	title  string
	items  []item
	at     int
	choose func(value string) // called by Update
}

// item is a line of a picker.
type item struct{ value, label, detail string }

// listedMsg is a list that the host has answered.
type listedMsg struct {
	pick func() *picker
	err  error
}

func (m *model) listed(msg listedMsg) {
	if msg.err != nil {
		m.note = msg.err.Error()
		return
	}
	if m.pick = msg.pick(); len(m.pick.items) == 0 {
		m.pick, m.note = nil, "there is none"
	}
}

// pickKey handles a key while a picker is open.
func (m *model) pickKey(k string) tea.Cmd {
	p := m.pick
	switch k {
	case "up", "ctrl+p", "k":
		p.at = max(p.at-1, 0)
	case "down", "ctrl+n", "j":
		p.at = min(p.at+1, len(p.items)-1)
	case "home":
		p.at = 0
	case "end":
		p.at = len(p.items) - 1
	case "enter":
		m.pick = nil
		p.choose(p.items[p.at].value)
		if m.switched {
			m.switched = false
			return m.conn.listen()
		}
	case "esc", "q":
		m.pick = nil
	}
	return nil
}

// listTimeout bounds a question to the host.
const listTimeout = 10 * time.Second

func (m *model) listSessions() tea.Cmd {
	n, current := m.net, m.conversation
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(n.ctx, listTimeout)
		defer cancel()
		var page gateway.Page[gateway.ConversationInfo]
		err := n.host.Get(ctx, "/api/v1/conversations?from=people&limit=500", &page)
		return listedMsg{err: err, pick: func() *picker { return m.sessionPicker(page.Items, current, time.Now()) }}
	}
}

// sessionPicker offers the conversations of the terminal, latest first, and a new one.
func (m *model) sessionPicker(list []gateway.ConversationInfo, current string, now time.Time) *picker {
	p := &picker{title: "Sessions", choose: m.session}
	p.items = append(p.items, item{value: now.Format("2006-01-02-150405"), label: "+ a new session"})
	for _, c := range list {
		if c.Channel != gateway.ChannelTerminal {
			continue
		}
		it := item{value: c.ID, label: c.ID, detail: c.Title + "  " + ago(now.Sub(c.Last))}
		if c.Running {
			it.detail += ", answering"
		}
		if c.ID == current {
			it.label += " (this one)"
			p.at = len(p.items)
		}
		p.items = append(p.items, it)
	}
	return p
}

func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute") + " ago"
	case d < 48*time.Hour:
		return plural(int(d/time.Hour), "hour") + " ago"
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

func (m *model) listAgents() tea.Cmd {
	n := m.net
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(n.ctx, listTimeout)
		defer cancel()
		var status gateway.Status
		err := n.host.Get(ctx, "/api/v1/status", &status)
		return listedMsg{err: err, pick: func() *picker { return m.agentPicker(status.Agents) }}
	}
}

// agentPicker offers the agents. The host says who may choose which.
func (m *model) agentPicker(list []gateway.AgentStatus) *picker {
	p := &picker{title: "Agents", choose: func(name string) { m.say("/agent " + name) }}
	for _, a := range list {
		detail := a.Model
		if a.Sandbox != "" {
			detail += ", in sandbox " + a.Sandbox
		}
		if a.Name == m.talk.agent {
			p.at = len(p.items)
		}
		p.items = append(p.items, item{value: a.Name, label: a.Name, detail: detail})
	}
	return p
}

// view lays out the picker in at most room lines.
func (p *picker) view(page paper, room int) []string {
	most := max(room-2, 1)
	from := max(min(p.at-most/2, len(p.items)-most), 0)
	lines := []string{page.bold(p.title)}
	for i, it := range p.items[from:min(from+most, len(p.items))] {
		mark := "  "
		label := page.short(it.label, 40)
		if from+i == p.at {
			mark, label = page.cyan("› "), page.bold(label)
		}
		lines = append(lines, page.firstLine(mark+label+"  "+page.dim(page.short(it.detail, max(page.width-len(it.label)-6, 4)))))
	}
	return append(lines, page.firstLine(page.dim("Enter chooses, Esc closes")))
}
