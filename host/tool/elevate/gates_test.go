package elevate

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool"
)

// said is a message of somebody in the conversation irc:#x.
func said(who string, at time.Time) message.Message {
	return message.Message{Channel: "irc", Conversation: message.Conversation{ID: "#x"}, Sender: message.Sender{ID: who}, ReceivedAt: at}
}

// open are gates that let irc:ann begin elevated mode.
func open() Gates {
	c := &config.Config{
		Access:   config.Access{Owners: []string{"irc:ann", "irc:carol"}, Members: []string{"irc:bob"}},
		Elevated: config.Elevated{Enabled: true, Senders: []string{"irc:ann", "irc:bob"}, AllowOn: true, MaxTime: config.Duration(time.Hour)},
		Agents:   map[string]config.Agent{"main": {Elevated: true}},
	}
	return Gates{Config: c, Roles: route.NewRoles(c.Access, route.AllProved)}
}

func TestWhoMayBegin(t *testing.T) {
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
		g, now := open(), time.Now()
		c.change(g.Config)
		if got := g.refuses(said(c.who, now), c.state, c.span, now); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
	now := time.Now()
	if got := open().refuses(said("ann", now.Add(-time.Hour)), "ask", time.Minute, now); !strings.Contains(got, "over already") {
		t.Errorf("said an hour ago, for a minute: %q", got)
	}
}

func TestAModeWithoutATimeKeepsTheLimit(t *testing.T) {
	for _, c := range [][3]time.Duration{ // asked, the limit, and what holds
		{0, 10 * time.Minute, 10 * time.Minute}, {0, time.Hour, usualSpan}, {5 * time.Minute, 10 * time.Minute, 5 * time.Minute},
		{20 * time.Minute, 10 * time.Minute, 20 * time.Minute}, // which the gates refuse
	} {
		if got := spanOf(c[0], c[1]); got != c[2] {
			t.Errorf("%v under a limit of %v: %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

// A gate that closes ends what was begun, and no gate at all lets nobody begin.
func TestACallGoesByTheGatesInForce(t *testing.T) {
	r := newRoom(t)
	turn := turnlog.Turn{Channel: "irc", Conversation: message.Conversation{ID: "#x"}, Sender: "irc:ann"}
	if _, refused, err := r.Mode.Begin(t.Context(), said("ann", r.now), Ask, 0); err != nil || refused == "" {
		t.Errorf("without gates: refused %q, %v", refused, err)
	}
	g := open()
	r.config.Gates = func() Gates { return g }
	if _, refused, err := r.Mode.Begin(t.Context(), said("ann", r.now), Ask, 0); err != nil || refused != "" {
		t.Fatalf("refused %q, %v", refused, err)
	}
	want := tool.Elevation{Enabled: true, Sender: true, Agent: true, AllowOn: true, State: Ask, By: "irc:ann"}
	if got := r.Elevation(turn, "main"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	g.Config.Elevated.Enabled = false
	if got := r.Elevation(turn, "main"); got != (tool.Elevation{}) {
		t.Errorf("a closed gate leaves %+v", got)
	}
}

func TestSendersAreOwners(t *testing.T) {
	c := &config.Config{Access: config.Access{Owners: []string{"irc:ann"}}}
	c.Elevated.Senders = []string{"irc:ann", "web:owner", "irc:bob"}
	if errs := Check(c); len(errs) != 1 || !strings.Contains(errs[0].Error(), `"irc:bob" is not an owner`) {
		t.Errorf("found %v", errs)
	}
}
