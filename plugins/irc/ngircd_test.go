package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// The tests of this file run against a real ngircd on loopback.

func config(settings map[string]any) channel.Config {
	return channel.Config{Instance: "irc", Settings: settings, Log: slog.New(slog.DiscardHandler)}
}

// server is an ngircd that can be stopped and started again on its port.
type server struct {
	t    *testing.T
	addr string
	conf string
	cmd  *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	path, err := exec.LookPath("ngircd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/ngircd")
	}
	need.Part(t, "irc", err)
	s := &server{t: t, addr: need.Address(t), conf: filepath.Join(t.TempDir(), "ngircd.conf")}
	_, port, _ := net.SplitHostPort(s.addr)
	text := fmt.Sprintf(`[Global]
Name = irc.test
Listen = 127.0.0.1
Ports = %s
MotdPhrase = hello
[Limits]
ConnectRetry = 5
MaxConnectionsIP = 0
MaxJoins = 50
MaxPenaltyTime = 0
PingTimeout = 3600
[Options]
DNS = no
Ident = no
PAM = no
SyslogFacility = local1
`, port)
	if err := os.WriteFile(s.conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start(path)
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(path string) {
	s.t.Helper()
	s.cmd = exec.Command(path, "--nodaemon", "--config", s.conf)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("ngircd does not listen: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) stop() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

// person is a plain IRC client.
type person struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (s *server) person(nick string, channels ...string) *person {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	p := &person{t: s.t, conn: conn, in: bufio.NewReader(conn)}
	p.say("NICK %s", nick)
	p.say("USER %s 0 * :%s", nick, nick)
	p.await("001")
	for _, c := range channels {
		p.say("JOIN %s", c)
		p.await("366")
	}
	return p
}

func (p *person) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.conn, format+"\r\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

// await returns the next line with a command and, where given, a text in it.
func (p *person) await(command string, text ...string) line {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		raw, err := p.in.ReadString('\n')
		if err != nil {
			p.t.Fatalf("wait for %s %q: %v", command, text, err)
		}
		if len(raw) > maxLine {
			p.t.Errorf("line of %d bytes: %q", len(raw), raw)
		}
		l, err := parseLine(strings.TrimRight(raw, "\r\n"))
		if err != nil {
			continue
		}
		if l.command == "PING" {
			p.say("PONG :%s", l.last())
		}
		if l.command == command && (len(text) == 0 || strings.Contains(raw, text[0])) {
			return l
		}
	}
}

func (s *server) flynn(more map[string]any) *plugintest.Host {
	s.t.Helper()
	settings := map[string]any{
		"address": s.addr, "tls": false, "identity": "nick", "nick": "flynn", "channels": []string{"#Flynn"}, "flood_interval_ms": 1, "flood_burst": 20,
	}
	for k, v := range more {
		settings[k] = v
	}
	h := plugintest.Start(s.t, &plugin{}, plugintest.Config{Instance: "irc", Settings: settings, Timeout: time.Minute})
	h.WaitStatus(channel.StateReady)
	return h
}

// settle waits until flynn is in the channel, as others see it.
func (p *person) settle(channelName string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p.say("NAMES %s", channelName)
		if strings.Contains(p.await("353").last(), "flynn") {
			return
		}
	}
	p.t.Fatal("flynn did not join")
}

func send(h *plugintest.Host, key string, where channel.Conversation, text string) (channel.Sent, error) {
	return h.Send(channel.Send{Key: key, Conversation: where, Text: text})
}

func TestChannelsAndPrivateMessages(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	ann := s.person("Ann", "#flynn")
	ann.settle("#flynn")

	ann.say("PRIVMSG #flynn :Flynn: \x02what\x02 is up?")
	e := h.Event()
	want := channel.Conversation{ID: "#flynn", Kind: channel.Group}
	if e.Conversation != want || e.Text != "what is up?" || !e.Addressed || e.Sender.ID != "ann" || e.Sender.Name != "Ann" || e.Sender.Account != "" {
		t.Fatalf("event is %+v", e)
	}
	ann.say("PRIVMSG #flynn :just talking")
	quiet := h.Event()
	if quiet.Addressed || quiet.ID == e.ID {
		t.Fatalf("event is %+v", quiet)
	}
	ann.say("PRIVMSG flynn :\x01ACTION waves\x01")
	ann.say("PRIVMSG flynn :\x01VERSION\x01")
	ann.say("NOTICE flynn :not for you")
	ann.say("PRIVMSG flynn :hello")
	wave, hello := h.Event(), h.Event()
	if wave.Text != "* Ann waves" || hello.Text != "hello" || hello.Conversation != (channel.Conversation{ID: "ann", Kind: channel.DM}) || !hello.Addressed {
		t.Fatalf("events are %+v and %+v", wave, hello)
	}
	h.Ack()

	if sent, err := send(h, "k1", e.Conversation, "all **well**"); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	if got := ann.await("PRIVMSG"); got.param(0) != "#Flynn" && got.param(0) != "#flynn" || got.last() != "all **well**" {
		t.Fatalf("got %+v", got)
	}
	if sent, err := send(h, "k1", e.Conversation, "all well"); err != nil || sent.Outcome != channel.OutcomeDuplicate {
		t.Fatalf("the same key again: %+v, %v", sent, err)
	}
	send(h, "k2", hello.Conversation, "in private")
	if got := ann.await("PRIVMSG", "in private"); fold(got.param(0)) != "ann" {
		t.Fatalf("got %+v", got)
	}
}

func TestNobodyThere(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	sent, err := send(h, "k", channel.Conversation{ID: "ghost", Kind: channel.DM}, "anyone?")
	if sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter == 0 {
		t.Fatalf("send to nobody: %+v, %v", sent, err)
	}
}

func TestNickChanges(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	ann := s.person("ann", "#flynn")
	ann.settle("#flynn")
	ann.say("PRIVMSG flynn :a question")
	dm := h.Event()
	ann.say("NICK annie")
	ann.await("NICK")
	ann.say("PRIVMSG #flynn :flynn: who am I?")
	if e := h.Event(); e.Sender.ID != "annie" || e.Conversation.ID != "#flynn" {
		t.Fatalf("after the change: %+v", e)
	}
	if sent, err := send(h, "k", dm.Conversation, "an answer to the old nick"); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	ann.await("PRIVMSG", "an answer to the old nick")
}

func TestNickIsTaken(t *testing.T) {
	s := newServer(t)
	s.person("flynn")
	h := s.flynn(nil)
	ann := s.person("ann", "#flynn")
	ann.settle("#flynn")
	ann.say("PRIVMSG #flynn :flynn_: are you there?")
	if e := h.Event(); !e.Addressed || e.Text != "are you there?" {
		t.Fatalf("event is %+v", e)
	}
}

func TestReconnectAfterTheServerRestarts(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	s.person("ann", "#flynn").settle("#flynn")
	s.stop()
	h.WaitStatus(channel.StateConnecting)
	if sent, _ := send(h, "k", channel.Conversation{ID: "#flynn"}, "into the void"); sent.Outcome != channel.OutcomeNotSent {
		t.Fatalf("send while down: %+v", sent)
	}
	s.start(s.cmd.Path)
	ann := s.person("ann", "#flynn")
	h.WaitStatus(channel.StateReady)
	ann.settle("#flynn")
	ann.say("PRIVMSG #flynn :flynn: back?")
	if e := h.Event(); e.Text != "back?" {
		t.Fatalf("event is %+v", e)
	}
	if sent, err := send(h, "k", channel.Conversation{ID: "#flynn"}, "back"); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	ann.await("PRIVMSG", "back")
}

func TestLongAnswersAreSplit(t *testing.T) {
	s := newServer(t)
	h := s.flynn(nil)
	ann := s.person("ann", "#flynn")
	ann.settle("#flynn")
	var text strings.Builder
	for i := range 150 {
		fmt.Fprintf(&text, "wörd%d ", i)
	}
	if sent, err := send(h, "k", channel.Conversation{ID: "#flynn"}, text.String()); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	var got strings.Builder
	for !strings.Contains(got.String(), "wörd149") {
		got.WriteString(ann.await("PRIVMSG").last() + " ")
	}
	if strings.TrimSpace(got.String()) != strings.TrimSpace(text.String()) {
		t.Fatalf("got %q", got.String())
	}
}

func TestFloodControl(t *testing.T) {
	s := newServer(t)
	h := s.flynn(map[string]any{"flood_burst": 2, "flood_interval_ms": 200})
	ann := s.person("ann", "#flynn")
	ann.settle("#flynn")
	began := time.Now()
	if _, err := send(h, "k", channel.Conversation{ID: "#flynn"}, strings.Repeat("line\n", 7)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 5*200*time.Millisecond-50*time.Millisecond {
		t.Fatalf("7 lines took %s; two at once and five at 200 ms each take a second", took)
	}
}

func TestWrongServerIsSaid(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewScanner(c); in.Scan() && !strings.HasPrefix(in.Text(), "USER"); {
			}
			fmt.Fprint(c, "ERROR :you are banned\r\n")
			c.Close()
		}
	}()
	settings, err := newSettings(config(map[string]any{"address": l.Addr().String(), "tls": false}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, _, err := dial(ctx, settings); err == nil || !strings.Contains(err.Error(), "banned") {
		t.Fatalf("error is %v", err)
	}
}
