package livetest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
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
	bob, eve := newPerson(t, addr, "bob"), newPerson(t, addr, "eve")
	bob.send("JOIN #workshop")
	bob.await(" 366 ", patience)
	bob.meetIn("#workshop", "workshop")

	bob.send("PRIVMSG #workshop :workshop: !sh echo in-$((40+2))")
	var asked []gateway.Approval
	s.eventually("the owner is asked", func() error {
		out, err := s.call("/api/v1/approvals", nil)
		if err == nil {
			err = json.Unmarshal([]byte(out), &asked)
		}
		if err == nil && len(asked) == 0 {
			err = errors.New("no request waits")
		}
		return err
	})
	bob.send("PRIVMSG #workshop :workshop: /approve " + asked[0].ID) // which only an owner may
	bob.await("Only an owner", patience)
	s.mustFlynn("approvals", "approve", asked[0].ID)
	bob.await("in-42", patience)

	eve.send("PRIVMSG flynn :hello")
	code := regexp.MustCompile(`\b[A-Z0-9]{4}-?[A-Z0-9]{4}\b`).FindString(eve.await("PRIVMSG eve ", patience))
	s.mustFlynn("access", "approve", code)
	eve.send("PRIVMSG flynn :hello again")
	eve.await("You said: hello again", patience)
	eve.send(`PRIVMSG flynn :!tool agent.delegate {"agent":"coder","task":"!sh id"}`)
	eve.await("not offered", patience)
	eve.send(`PRIVMSG flynn :!tool agent.delegate {"agent":"researcher","task":"look it up"}`)
	eve.await("You said: look it up", patience)
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
