package livetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// TestTeamExample goes through the table of the example's page.
func TestTeamExample(t *testing.T) {
	t.Parallel()
	sandboxtest.Engine(t)
	addr := ircServer(t)
	text, err := os.ReadFile(filepath.Join(root, "examples/team/flynn.toml"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for _, c := range [][2]string{
		{"../../.cache/team", "%DIR%/state"},
		{"../../policies/owner-only-shell/policy.wasm", "%DIR%/shell/policy.wasm"},
		{"../../plugins/irc", "%BIN%/irc"},
		{"127.0.0.1:6667", addr},
		{"debian:stable-slim", sandboxtest.Image},
		{"kinds = [\"tool\"]\n", "kinds = [\"tool\"]\n" + unhurried},
	} {
		if !strings.Contains(config, c[0]) {
			t.Fatalf("the example has no %s any more", c[0])
		}
		config = strings.ReplaceAll(config, c[0], c[1])
	}
	config = strings.ReplaceAll(config, "tls      = false", "tls = false\nflood_interval_ms = 1")
	s := newSite(t, config+"[gateway]\nlisten = \"127.0.0.1:%PORT%\"\n")
	s.copyPolicy("owner-only-shell", "shell")
	s.start()
	ann, bob, eve := newPerson(t, addr, "ann"), newPerson(t, addr, "bob"), newPerson(t, addr, "eve")
	for _, room := range []string{"#lounge", "#workshop", "#approvals"} {
		for _, p := range []*person{ann, bob} {
			if room == "#approvals" && p == bob {
				continue
			}
			p.send("JOIN " + room)
			p.await(" 366 ", patience)
		}
	}
	ann.meetIn("#lounge", "flynn")
	ann.meetIn("#approvals", "flynn")
	ann.meetIn("#workshop", "workshop")

	bob.send("PRIVMSG #lounge :flynn: hello")
	bob.await("You said: hello", patience)

	bob.send("PRIVMSG #workshop :workshop: !sh echo in-$((40+2))")
	asked := ann.await("PRIVMSG #approvals", patience)
	for !strings.Contains(asked, "/approve ") {
		asked = ann.await("PRIVMSG #approvals", patience)
	}
	id := regexp.MustCompile(`/approve ([A-Z0-9]+)`).FindStringSubmatch(asked)[1]
	ann.send("PRIVMSG #approvals :flynn: /approve " + id)
	bob.await("in-42", patience)

	bob.send(`PRIVMSG #lounge :flynn: !tool agent.delegate {"agent":"coder","task":"!sh id"}`)
	bob.await("not offered", patience)
	bob.send(`PRIVMSG #lounge :flynn: !tool agent.delegate {"agent":"researcher","task":"look it up"}`)
	bob.await("You said: look it up", patience)

	eve.send("PRIVMSG flynn :hello")
	code := regexp.MustCompile(`\b[A-Z0-9]{4}-?[A-Z0-9]{4}\b`).FindString(eve.await("PRIVMSG eve ", patience))
	ann.send("PRIVMSG #lounge :flynn: /pair " + code)
	ann.await("Let in as guest", patience)
	eve.send("PRIVMSG flynn :hello again")
	eve.await("You said: hello again", patience)
}

// meetIn waits until somebody is in a channel.
func (p *person) meetIn(room, nick string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p.send("NAMES " + room)
		line := p.await(" 353 ", patience)
		if strings.Contains(line, room) && strings.Contains(line[strings.LastIndex(line, ":"):], nick) {
			return
		}
	}
	p.t.Fatalf("%s did not join %s", nick, room)
}
