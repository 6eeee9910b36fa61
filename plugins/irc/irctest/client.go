package irctest

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// client is the connection of one bot. Everything but conn is guarded by the server's mu.
type client struct {
	server *Server
	conn   net.Conn

	nick, user  string
	negotiating bool // CAP LS was received and CAP END was not
	welcome     bool
	caps        map[string]bool
	joined      map[string]bool // folded channels
}

// Bounds of a line, in bytes: RFC 1459.
const (
	maxLine = 512
	maxNick = 30
)

// offered returns the capabilities.
func (c *client) offered() []string {
	all := []string{"message-tags", "server-time", "account-tag"}
	if len(c.server.config.Accounts) > 0 {
		all = append(all, "sasl")
	}
	return all
}

// serve obeys lines until the connection ends. A line that is too long ends it.
func (c *client) serve() {
	defer c.server.leave(c)
	defer c.conn.Close()
	in := bufio.NewReaderSize(c.conn, maxLine)
	for {
		raw, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		command, params := parse(strings.TrimRight(string(raw), "\r\n"))
		if command != "" && !c.obey(command, params) {
			return
		}
	}
}

// parse splits a line of a client into its command and parameters. Clients send no source and no tags.
func parse(text string) (command string, params []string) {
	head, trailing, has := strings.Cut(" "+text, " :")
	words := strings.Fields(head)
	if len(words) == 0 {
		return "", nil
	}
	params = words[1:]
	if has {
		params = append(params, trailing)
	}
	return strings.ToUpper(words[0]), params
}

// obey carries out one line and reports whether the connection stays.
func (c *client) obey(command string, params []string) bool {
	s := c.server
	defer s.mu.Change()()
	switch need := needed[command]; {
	case len(params) < need:
		c.number("461", command, "Not enough parameters")
		return true
	case !c.welcome && !slices.Contains(early, command):
		c.number("451", "", "You have not registered")
		return true
	}
	switch command {
	case "CAP":
		c.capability(params)
	case "AUTHENTICATE":
		c.authenticate(params[0])
	case "NICK":
		c.take(params[0])
	case "USER":
		c.user = params[0]
	case "PING":
		c.write(":%s PONG %s :%s", Name, Name, params[len(params)-1])
	case "PONG", "PASS":
	case "JOIN":
		c.join(params[0])
	case "PART":
		c.part(params[0])
	case "NAMES":
		c.names(params[0])
	case "PRIVMSG":
		c.say(params[0], params[1])
	case "QUIT":
		c.write("ERROR :Closing Link")
		return false
	default:
		c.number("421", command, "Unknown command")
	}
	c.greet()
	return true
}

// early are the commands before the welcome; needed is how many parameters each command has at least.
var (
	early  = []string{"CAP", "NICK", "USER", "PASS", "PING", "PONG", "QUIT", "AUTHENTICATE"}
	needed = map[string]int{"CAP": 1, "NICK": 1, "USER": 4, "PASS": 1, "PING": 1, "JOIN": 1, "PART": 1, "NAMES": 1, "PRIVMSG": 2, "AUTHENTICATE": 1}
)

// capability negotiates as IRCv3 specifies.
func (c *client) capability(params []string) {
	switch strings.ToUpper(params[0]) {
	case "LS":
		c.negotiating = !c.welcome
		c.write(":%s CAP %s LS :%s", Name, c.called(), strings.Join(c.offered(), " "))
	case "REQ":
		c.negotiating = !c.welcome
		asked := strings.Fields(params[len(params)-1])
		if slices.ContainsFunc(asked, func(name string) bool { return !slices.Contains(c.offered(), name) }) {
			c.write(":%s CAP %s NAK :%s", Name, c.called(), strings.Join(asked, " "))
			return
		}
		for _, name := range asked {
			c.caps[name] = true
		}
		c.write(":%s CAP %s ACK :%s", Name, c.called(), strings.Join(asked, " "))
	case "END":
		c.negotiating = false
	}
}

// authenticate is SASL with the mechanism PLAIN (RFC 4616), in one piece.
func (c *client) authenticate(text string) {
	if strings.EqualFold(text, "PLAIN") && c.caps["sasl"] {
		c.write("AUTHENTICATE +")
		return
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	parts := strings.Split(string(raw), "\x00") // who to be, who to log in as, password
	if err != nil || !c.caps["sasl"] || len(parts) != 3 || parts[2] == "" || c.server.config.Accounts[parts[1]] != parts[2] {
		c.number("904", "", "SASL authentication failed")
		return
	}
	c.number("903", "", "SASL authentication successful")
}

// take gives the client a nick, unless it is taken.
func (c *client) take(nick string) {
	for other := range c.server.conns {
		if other != c && fold(other.nick) == fold(nick) {
			c.number("433", nick, "Nickname is already in use")
			return
		}
	}
	if len(nick) > maxNick || strings.ContainsAny(nick, " ,*?!@#&:") {
		c.number("432", nick, "Erroneous nickname")
		return
	}
	if c.welcome {
		c.write(":%s NICK :%s", source(c.nick), nick)
		for channel := range c.joined {
			delete(c.server.channels[channel], c.nick)
			c.server.join(nick, channel)
		}
	}
	c.nick = nick
}

// greet welcomes a client that has registered.
func (c *client) greet() {
	if c.welcome || c.negotiating || c.nick == "" || c.user == "" {
		return
	}
	c.welcome = true
	c.number("001", "", "Welcome to the Internet Relay Network "+source(c.nick))
	c.write(":%s 005 %s PREFIX=(ov)@+ CHANMODES=b,k,l,imnst CASEMAPPING=rfc1459 :are supported by this server", Name, c.nick)
	c.number("422", "", "MOTD file is missing")
}

func (c *client) join(channel string) {
	if !strings.HasPrefix(channel, "#") || strings.ContainsAny(channel, ",\a") {
		c.number("403", channel, "No such channel")
		return
	}
	c.joined[fold(channel)] = true
	c.server.join(c.nick, channel)
	c.write(":%s JOIN %s", source(c.nick), channel)
	c.names(channel)
}

func (c *client) part(channel string) {
	if !c.joined[fold(channel)] {
		c.number("442", channel, "You're not on that channel")
		return
	}
	delete(c.joined, fold(channel))
	delete(c.server.channels[fold(channel)], c.nick)
	c.write(":%s PART %s", source(c.nick), channel)
}

// namesPerLine bounds the names in a line of a list.
const namesPerLine = 10

func (c *client) names(channel string) {
	var nicks []string
	for nick := range c.server.channels[fold(channel)] {
		nicks = append(nicks, nick)
	}
	slices.Sort(nicks)
	for some := range slices.Chunk(nicks, namesPerLine) {
		c.number("353", "= "+channel, strings.Join(some, " "))
	}
	c.number("366", channel, "End of NAMES list")
}

// say takes a message of the bot.
func (c *client) say(target, text string) {
	switch {
	case c.server.refused[fold(target)]:
		c.number("404", target, "Cannot send to channel")
	case strings.HasPrefix(target, "#") && !c.joined[fold(target)]:
		c.number("404", target, "Cannot send to channel")
	case text == "":
		c.number("412", "", "No text to send")
	default:
		c.server.said = append(c.server.said, Message{From: c.nick, To: target, Text: text})
		c.server.mu.Shown(text)
	}
}

// tags returns those before a person's message, as far as the client has asked for them.
func (c *client) tags(number int, nick string) string {
	var tags []string
	if c.caps["message-tags"] {
		tags = append(tags, fmt.Sprintf("msgid=m%d", number))
	}
	if c.caps["server-time"] {
		tags = append(tags, "time="+time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if c.caps["account-tag"] {
		tags = append(tags, "account="+strings.ToLower(nick))
	}
	if len(tags) == 0 {
		return ""
	}
	return "@" + strings.Join(tags, ";") + " "
}

// called returns how the server calls a client that may have no name.
func (c *client) called() string {
	if c.nick == "" {
		return "*"
	}
	return c.nick
}

// number writes a numeric reply about something, which may be empty.
func (c *client) number(code, about, text string) {
	if about != "" {
		about += " "
	}
	c.write(":%s %s %s %s:%s", Name, code, c.called(), about, text)
}

// write writes one line. An error shows where the connection is read.
func (c *client) write(format string, args ...any) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = io.WriteString(c.conn, fmt.Sprintf(format, args...)+"\r\n")
}
