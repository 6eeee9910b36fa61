package host

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

func TestWhoMayBeginElevatedMode(t *testing.T) {
	open := func() *generation {
		c := &config.Config{
			Access:   config.Access{Owners: []string{"irc:ann", "irc:carol"}, Members: []string{"irc:bob"}},
			Elevated: config.Elevated{Enabled: true, Senders: []string{"irc:ann", "irc:bob"}, AllowOn: true, MaxTime: config.Duration(time.Hour)},
			Agents:   map[string]config.Agent{"main": {Elevated: true}},
		}
		return &generation{config: c, Generation: &agent.Generation{Roles: route.NewRoles(c.Access, route.AllProved)}}
	}
	for _, c := range []struct {
		name, who, state string
		span             time.Duration
		change           func(*config.Config)
		want             string // part of the refusal
	}{
		{"all gates open", "ann", "ask", time.Hour, func(*config.Config) {}, ""},
		{"on", "ann", "on", time.Hour, func(*config.Config) {}, ""},
		{"not enabled", "ann", "ask", time.Hour, func(c *config.Config) { c.Elevated.Enabled = false }, "enabled = true"},
		{"an owner who is not named", "carol", "ask", time.Hour, func(*config.Config) {}, "senders"},
		{"named, but no owner", "bob", "ask", time.Hour, func(*config.Config) {}, "senders"},
		{"a stranger", "eve", "ask", time.Hour, func(*config.Config) {}, "senders"},
		{"no agent may", "ann", "ask", time.Hour, func(c *config.Config) { c.Agents["main"] = config.Agent{} }, "elevated = true"},
		{"on is not allowed", "ann", "on", time.Hour, func(c *config.Config) { c.Elevated.AllowOn = false }, "allow_on"},
		{"too long", "ann", "ask", time.Hour + 1, func(*config.Config) {}, "max_time"},
	} {
		g := open()
		c.change(g.config)
		m := message.Message{Channel: "irc", Sender: message.Sender{ID: c.who}, ReceivedAt: time.Now()}
		if got := mayElevate(g, m, c.state, c.span); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
	late := message.Message{Channel: "irc", Sender: message.Sender{ID: "ann"}, ReceivedAt: time.Now().Add(-time.Hour)}
	if got := mayElevate(open(), late, "ask", time.Minute); !strings.Contains(got, "over already") {
		t.Errorf("said an hour ago, for a minute: %q", got)
	}
}

func TestElevatedModeWithoutATimeKeepsTheLimit(t *testing.T) {
	for _, c := range [][3]time.Duration{ // asked, the limit, and what holds
		{0, 10 * time.Minute, 10 * time.Minute}, {0, time.Hour, usualElevation}, {5 * time.Minute, 10 * time.Minute, 5 * time.Minute},
		{20 * time.Minute, 10 * time.Minute, 20 * time.Minute}, // which mayElevate refuses
	} {
		if got := elevationSpan(c[0], c[1]); got != c[2] {
			t.Errorf("%v under a limit of %v: %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

func TestSendersOfElevatedModeAreOwners(t *testing.T) {
	c := &config.Config{Access: config.Access{Owners: []string{"irc:ann"}}}
	c.Elevated.Senders = []string{"irc:ann", "web:owner", "irc:bob"}
	if errs := checkElevated(c); len(errs) != 1 || !strings.Contains(errs[0].Error(), `"irc:bob" is no owner`) {
		t.Errorf("found %v", errs)
	}
}
