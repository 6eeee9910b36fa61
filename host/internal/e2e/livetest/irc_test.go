package livetest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/sdk/need"
)

// ircServer starts an ngircd on loopback and returns its address.
func ircServer(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ngircd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/ngircd")
	}
	need.Part(t, "irc", err)
	s := &site{t: t, dir: t.TempDir(), port: freePort(t)}
	s.write("ngircd.conf", `[Global]
Name = irc.test
Listen = 127.0.0.1
Ports = %PORT%
[Limits]
MaxConnectionsIP = 0
PingTimeout = 3600
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
`)
	cmd := exec.Command(path, "--nodaemon", "--config", filepath.Join(s.dir, "ngircd.conf"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	addr := "127.0.0.1:" + s.port
	s.eventually("ngircd listens", func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	return addr
}

// person is somebody on IRC.
type person struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func newPerson(t *testing.T, addr, nick string) *person {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &person{t: t, conn: conn, in: bufio.NewScanner(conn)}
	p.send("NICK " + nick)
	p.send("USER " + nick + " 0 * :" + nick)
	p.await(" 001 ", patience)
	p.send("JOIN #flynn")
	p.await(" 366 ", patience)
	return p
}

func (p *person) send(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.conn, "%s\r\n", line); err != nil {
		p.t.Fatal(err)
	}
}

// await reads until a line has text, and returns it.
func (p *person) await(text string, within time.Duration) string {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(within))
	for p.in.Scan() {
		line := p.in.Text()
		if strings.HasPrefix(line, "PING") {
			p.send("PONG" + strings.TrimPrefix(line, "PING"))
		}
		if strings.Contains(line, text) {
			return line
		}
	}
	p.t.Fatalf("%q did not come within %s: %v", text, within, p.in.Err())
	return ""
}

// quiet checks that nothing with text comes for a while.
func (p *person) quiet(text string, during time.Duration) {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(during))
	for p.in.Scan() {
		if strings.Contains(p.in.Text(), text) {
			p.t.Errorf("heard %q", p.in.Text())
		}
	}
	if p.in.Err() == nil {
		p.t.Error("the connection ended")
	}
}

// meet waits until flynn is in the channel.
func (p *person) meet() {
	p.t.Helper()
	p.meetIn("#flynn", "flynn")
}

const ircConfig = `
[agent_configs.helper]
[agent_configs.coder]
model_tier = "complex"
[routing]
default_agent = "helper"
[routing.senders]
"net:bob" = "coder"
[access]
mode = "open"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
[plugins.dev_paths]
irc = "%BIN%/irc"
[channels.net]
plugin = "irc"
address = "ADDRESS"
tls = false
identity = "nick"
channels = ["#flynn"]
flood_interval_ms = 1
`

// model is a tier that talks to a server of ours which always says the same.
func model(t *testing.T, tier, says string) string {
	t.Helper()
	config, _ := scripted(t, tier, modeltest.Reply{Text: says})
	return config
}

// scripted is a tier that talks to a server of ours which answers by a script, and with its last line for ever.
func scripted(t *testing.T, tier string, script ...modeltest.Reply) (config string, server *modeltest.Server) {
	t.Helper()
	server = modeltest.New(t)
	server.Script(script...)
	c := server.Config("openai")
	return fmt.Sprintf("[models.%s]\nprovider = \"openai\"\nmodel = \"test\"\nbase_url = %q\napi_key_env = \"FLYNN_LIVETEST_KEY\"\n", tier, c.BaseURL), server
}

// held is a tier that talks to a server of ours which answers by a script, but nothing before it is let go.
func held(t *testing.T, tier string, script ...modeltest.Reply) (config string, server *modeltest.Server, letGo func()) {
	t.Helper()
	config, server = scripted(t, tier, script...)
	gate := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
			server.ServeHTTP(w, r)
		case <-time.After(patience):
		}
	}))
	letGo = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(func() {
		letGo()
		front.Close()
	})
	return strings.Replace(config, server.URL, front.URL, 1), server, letGo
}

// asked waits until a model has n requests.
func (s *site) asked(server *modeltest.Server, n int) {
	s.t.Helper()
	s.eventually("the model is asked", func() error {
		if got := len(server.Requests()); got < n {
			return fmt.Errorf("%d requests", got)
		}
		return nil
	})
}

func TestTwoPeopleGetTwoAgents(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	s := newSite(t, strings.Replace(ircConfig, "ADDRESS", addr, 1)+
		model(t, "default", "helper speaking")+model(t, "complex", "coder speaking"))
	s.start()
	ann, bob := newPerson(t, addr, "ann"), newPerson(t, addr, "bob")
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: hello")
	ann.await("helper speaking", patience)
	bob.await("helper speaking", patience)
	bob.send("PRIVMSG #flynn :flynn: hello")
	bob.await("coder speaking", patience)
	ann.send("PRIVMSG flynn :in private")
	ann.await("PRIVMSG ann :helper speaking", patience)
	bob.send("PRIVMSG #flynn :not for you")
	bob.quiet("speaking", 300*time.Millisecond)
}

func TestKilledInMidTurn(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	tier, server := scripted(t, "default", modeltest.Reply{Stall: true}, modeltest.Reply{Text: "here is the answer"})
	s := newSite(t, strings.Replace(ircConfig, "ADDRESS", addr, 1)+tier+"[models.complex]\nprovider = \"demo\"\n")
	s.start()
	ann := newPerson(t, addr, "ann")
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: what is it?")
	s.asked(server, 1)
	s.kill()
	s.start()
	ann.await("here is the answer", patience)
	ann.quiet("the answer", 500*time.Millisecond)
}
