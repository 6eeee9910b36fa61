package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/store"
)

// members are hosts in memory, with rude names.
type members struct {
	mu    sync.Mutex
	state gateway.ClusterStatus
}

const deadHost = "d\u202e" + markup

func (m *members) Cluster(context.Context) (gateway.ClusterStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	s.Hosts = append([]gateway.ClusterHost{}, s.Hosts...)
	return s, nil
}

func (m *members) change(name string, do func(*gateway.ClusterHost)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.state.Hosts {
		if m.state.Hosts[i].Name == name {
			do(&m.state.Hosts[i])
			return nil
		}
	}
	return store.NotFound("no " + name)
}

func (m *members) DrainHost(_ context.Context, name string, drained bool) error {
	if name == "a" && drained {
		return store.Conflict("a is busy " + markup)
	}
	return m.change(name, func(h *gateway.ClusterHost) { h.Idle = map[bool]string{true: "drained"}[drained] })
}

func (m *members) RemoveHost(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range m.state.Hosts {
		if h.Name == name {
			m.state.Hosts = append(m.state.Hosts[:i:i], m.state.Hosts[i+1:]...)
		}
	}
	return nil
}

func (m *members) AcceptConfiguration(context.Context) error {
	return m.change("a", func(h *gateway.ClusterHost) { h.Idle = "" })
}

func TestHostsRoom(t *testing.T) {
	t.Parallel()
	d := open(t, gatewaytest.Demo)
	m := &members{state: gateway.ClusterStatus{Hosts: []gateway.ClusterHost{}, Takeovers: []gateway.Takeover{}}}
	d.with(func(f *gateway.Backend) { f.Cluster = m })
	p := room(t, browser(t), d, "hosts", "Hosts")
	p.until(`document.querySelector("#room").textContent.includes("shares its store with nobody")`)
	m.mu.Lock()
	m.state = gateway.ClusterStatus{Shared: true, This: "a", Hosts: []gateway.ClusterHost{
		{Name: "a", Address: "127.0.0.1:7351", Version: "v1", Alive: true, Since: time.Now().Add(-time.Hour), Idle: "differs", Conversations: 12345, Channels: 2, Tasks: 3},
		{Name: strings.Repeat("b", 63), Address: "[2001:db8::1]:7351", Version: "v1", Alive: true, Since: time.Now(), Differs: true, Peer: "b:7650", Reached: "no", Unreached: markup},
		{Name: deadHost, Address: markup, Version: markup},
	}, Takeovers: []gateway.Takeover{{Host: "a", From: deadHost, Last: time.Now(), Keys: 7}}}
	m.mu.Unlock()
	rows := `document.querySelectorAll("#room tbody")[0]?.rows.length`
	p.until(rows + ` === 3`) // by itself
	p.want(`document.querySelectorAll("#room tbody")[1].rows.length`, "1")
	p.want(`document.querySelectorAll("#room img").length`, "0")
	p.want(`document.querySelectorAll("#room tbody")[0].rows[1].textContent.includes("not reached") && document.querySelectorAll("#room tbody")[0].rows[1].textContent.includes("b:7650")`, "true")
	p.looks("hosts")
	press := func(row int, word string) {
		t.Helper()
		p.eval(`[...document.querySelectorAll("#room tbody")[0].rows[` + string(rune('0'+row)) + `].querySelectorAll(".button")].find((x) => x.textContent === "` + word + `").click()`)
	}
	sure := func() {
		t.Helper()
		p.until(`document.querySelector("#room dialog[open]")`)
		p.eval(`document.querySelector("#room dialog[open] .danger").click()`)
	}
	press(0, "Drain")
	sure()
	p.until(`document.querySelector("#room dialog[open] .trouble")?.textContent.includes("<img")`)
	p.eval(`document.querySelector("#room dialog[open]").close()`)
	p.until(`!document.querySelector("#room dialog[open]")`)
	press(1, "Drain")
	sure()
	p.until(`document.querySelectorAll("#room tbody")[0].rows[1].textContent.includes("drained")`)
	press(1, "Let it work again")
	p.until(`!document.querySelectorAll("#room tbody")[0].rows[1].textContent.includes("drained")`)
	press(2, "Remove")
	sure()
	p.until(rows + ` === 2`)
	p.eval(`[...document.querySelectorAll("#room .button")].find((x) => x.textContent === "Have all agree on this one's").click()`)
	sure()
	p.until(`!document.querySelector("#room .room-notice.warn")`)
}
