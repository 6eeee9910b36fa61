package irctest

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *Server {
	t.Helper()
	return New(t, Config{Accounts: map[string]string{"flynn": "sesame"}})
}

// bot is a client that speaks by hand.
type bot struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func dial(t *testing.T, s *Server) *bot {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &bot{t, conn, bufio.NewScanner(conn)}
}

// registered is a bot that has been welcomed.
func registered(t *testing.T, s *Server, nick string) *bot {
	t.Helper()
	b := dial(t, s)
	b.say("NICK "+nick, "USER x 0 * :A bot")
	b.await(" 422 ")
	return b
}

func (b *bot) say(lines ...string) {
	for _, l := range lines {
		fmt.Fprintf(b.conn, "%s\r\n", l)
	}
}

// await reads until a line has part in it.
func (b *bot) await(part string) string {
	b.t.Helper()
	for b.in.Scan() {
		if strings.Contains(b.in.Text(), part) {
			return b.in.Text()
		}
	}
	b.t.Fatalf("no line with %q came: %v", part, b.in.Err())
	return ""
}

func TestConversations(t *testing.T) {
	for _, c := range []struct {
		name, say, answer string
	}{
		{"too early", "JOIN #c", ":irc.test 451 * :You have not registered"},
		{"alive before the welcome", "PING a", ":irc.test PONG irc.test :a"},
		{"capabilities", "CAP LS 302", ":irc.test CAP * LS :message-tags server-time account-tag sasl"},
		{"one that it has", "CAP REQ :server-time", ":irc.test CAP * ACK :server-time"},
		{"one that it has not", "CAP REQ :server-time chghost", ":irc.test CAP * NAK :server-time chghost"},
		{"a nick that is taken", "NICK Flynn", ":irc.test 433 * Flynn :Nickname is already in use"},
		{"a nick that is none", "NICK #a", ":irc.test 432 * #a :Erroneous nickname"},
		{"too few parameters", "USER x", ":irc.test 461 * USER :Not enough parameters"},
		{"goodbye", "QUIT :bye", "ERROR :Closing Link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t)
			registered(t, s, "flynn")
			b := dial(t, s)
			b.say(c.say)
			if !b.in.Scan() || b.in.Text() != c.answer {
				t.Errorf("got %q (%v), want %q", b.in.Text(), b.in.Err(), c.answer)
			}
		})
	}
}

func TestNegotiationHoldsTheWelcomeBack(t *testing.T) {
	b := dial(t, start(t))
	b.say("CAP LS 302", "NICK flynn", "USER x 0 * :A bot", "CAP REQ :message-tags account-tag", "PING before", "CAP END", "PING after")
	var got []string
	for range 7 {
		if !b.in.Scan() {
			t.Fatal(b.in.Err())
		}
		got = append(got, strings.Fields(b.in.Text())[1])
	}
	if want := []string{"CAP", "CAP", "PONG", "001", "005", "422", "PONG"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAccounts(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"the password", "\x00flynn\x00sesame", " 903 "},
		{"another one", "\x00flynn\x00open", " 904 "},
		{"none", "\x00flynn\x00", " 904 "},
		{"an account that is not there", "\x00eve\x00", " 904 "},
		{"too few parts", "flynn", " 904 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := dial(t, start(t))
			b.say("CAP REQ :sasl", "AUTHENTICATE PLAIN")
			b.await("AUTHENTICATE +")
			b.say("AUTHENTICATE " + base64.StdEncoding.EncodeToString([]byte(c.message)))
			if !b.in.Scan() || !strings.Contains(b.in.Text(), c.want) {
				t.Errorf("got %q, want %q in it", b.in.Text(), c.want)
			}
		})
	}
	b := dial(t, start(t))
	b.say("AUTHENTICATE PLAIN")
	b.await(" 904 ")
}

func TestPeopleTalk(t *testing.T) {
	s := start(t)
	b := registered(t, s, "Flynn")
	s.Join("@ann", "#C")
	b.say("JOIN #c")
	if list := b.await(" 353 "); !strings.HasSuffix(list, " = #c :@ann Flynn") {
		t.Errorf("the list is %q", list)
	}
	if s.Say("ann", "flynn", "hello") != 1 || s.Say("ann", "#c", "all") != 1 || s.Say("ann", "#d", "nobody") != 0 || s.Say("ann", "bob", "nobody") != 0 {
		t.Error("the wrong ones hear it")
	}
	if got := b.await("hello"); got != ":ann!ann@host.test PRIVMSG flynn :hello" {
		t.Errorf("got %q", got)
	}
	b.await("PRIVMSG #c :all")
	s.Join("+bob", "#c")
	b.await(":bob!bob@host.test JOIN #c")
	b.await("MODE #c +v bob")
	b.say("CAP REQ :message-tags account-tag", "PING 1")
	b.await("PONG")
	s.Say("Ann", "Flynn", "tagged")
	if got := b.await("tagged"); got != "@msgid=m5;account=ann :Ann!ann@host.test PRIVMSG Flynn :tagged" {
		t.Errorf("got %q", got)
	}
}

func TestWhatTheBotSays(t *testing.T) {
	s := start(t)
	b := registered(t, s, "flynn")
	s.Refuse("eve", true)
	for _, c := range []struct{ say, answer string }{
		{"PRIVMSG ann :hello there", ""},
		{"PRIVMSG ann short", ""},
		{"PRIVMSG ann :", " 412 "},
		{"PRIVMSG Eve :hello", " 404 flynn Eve "},
		{"PRIVMSG #c :not in it", " 404 flynn #c "},
		{"PART #c", " 442 "},
		{"JOIN c", " 403 "},
		{"DANCE", " 421 "},
	} {
		b.say(c.say, "PING end")
		if !b.in.Scan() || !strings.Contains(b.in.Text(), c.answer) {
			t.Errorf("%s: got %q, want %q in it", c.say, b.in.Text(), c.answer)
		}
		if c.answer != "" {
			b.await("PONG")
		}
	}
	want := []Message{{"flynn", "ann", "hello there"}, {"flynn", "ann", "short"}}
	if !slices.Equal(s.Said(), want) {
		t.Errorf("said %+v", s.Said())
	}
	b.say("NICK flynn2")
	b.await(":flynn!flynn@host.test NICK :flynn2")
	b.say("JOIN #c")
	b.await(" 366 ")
	if !s.In("flynn2", "#C") || !slices.Equal(s.Bots(), []string{"flynn2"}) {
		t.Errorf("bots are %q", s.Bots())
	}
	b.say("PART #c")
	b.await("PART")
	if s.In("flynn2", "#c") {
		t.Error("the bot has left and is there")
	}
}

func TestDrop(t *testing.T) {
	s := start(t)
	b := registered(t, s, "flynn")
	changed := s.mu.Changed()
	s.Drop()
	if b.in.Scan() {
		t.Errorf("after the end comes %q", b.in.Text())
	}
	<-changed
	registered(t, s, "flynn") // the nick is free as soon as the connection is gone
	b = dial(t, s)
	b.say(strings.Repeat("x", maxLine+1))
	if b.in.Scan() {
		t.Errorf("a line that is too long is answered with %q", b.in.Text())
	}
}

func FuzzParse(f *testing.F) {
	f.Add("PRIVMSG #c :a b")
	f.Add(" : ")
	f.Fuzz(func(t *testing.T, text string) {
		command, params := parse(text)
		if command == "" && len(params) > 0 || strings.Contains(command, " ") {
			t.Errorf("%q becomes %q with %q", text, command, params)
		}
	})
}
