// Package irctest is a small IRC server for tests: one that a bot can register with, join channels on, and be talked to, on loopback.
//
// Begin with New. Say is what a person writes to the bot or into a channel; Said is what the bot wrote. Drop breaks every
// connection, Refuse has the server refuse what is meant for somebody. It speaks RFC 1459 and 2812 as far as a bot needs, with the
// capabilities message-tags, server-time, account-tag and sasl of IRCv3; operators and other servers it does not have.
// People are there because they speak: only bots connect.
package irctest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Name is the server's own.
const Name = "irc.test"

// Config has the options. The zero value works.
type Config struct {
	Accounts map[string]string // passwords by name, for SASL; without any it is not offered
}

// Server is the fake.
type Server struct {
	t        platform.TB
	config   Config
	listener *platform.Listener
	work     sync.WaitGroup

	mu       platform.State
	conns    map[*client]bool
	channels map[string]map[string]bool // people by folded channel
	refused  map[string]bool            // folded targets
	said     []Message
	last     int // number of the latest message
}

// Message is a message on the network.
type Message struct {
	From, To, Text string
}

// New starts a server that ends with the test.
func New(t platform.TB, c Config) *Server {
	s := &Server{t: t, config: c, conns: map[*client]bool{}, channels: map[string]map[string]bool{}, refused: map[string]bool{}}
	t.Cleanup(s.work.Wait)
	s.listener = platform.Listen(t)
	s.work.Go(s.accept)
	return s
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Drop breaks every connection.
func (s *Server) Drop() { s.listener.Drop() }

// Watch makes the server report what people see of the bots.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &client{server: s, conn: conn, caps: map[string]bool{}, joined: map[string]bool{}}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.work.Go(c.serve)
	}
}

// Join adds a person to a channel, with "@" or "+" before the nick if it has that rank there.
func (s *Server) Join(nick, channel string) {
	defer s.mu.Change()()
	s.join(nick, channel)
	bare := strings.TrimLeft(nick, "@+")
	for c := range s.conns {
		if c.joined[fold(channel)] {
			c.write(":%s JOIN %s", source(bare), channel)
			if bare != nick {
				c.write(":%s MODE %s +%s %s", Name, channel, strings.NewReplacer("@", "o", "+", "v").Replace(nick[:len(nick)-len(bare)]), bare)
			}
		}
	}
}

// join records that a person is in a channel. s.mu is held.
func (s *Server) join(nick, channel string) {
	if s.channels[fold(channel)] == nil {
		s.channels[fold(channel)] = map[string]bool{}
	}
	s.channels[fold(channel)][nick] = true
}

// Say has a person write to a bot's nick or into a channel, and returns how many bots heard it: a message that nobody hears is lost, as it is on IRC.
func (s *Server) Say(nick, target, text string) (heard int) {
	defer s.mu.Change()()
	s.last++
	for c := range s.conns {
		if c.welcome && (fold(c.nick) == fold(target) || c.joined[fold(target)]) {
			c.write("%s:%s PRIVMSG %s :%s", c.tags(s.last, nick), source(nick), target, text)
			heard++
		}
	}
	return heard
}

// Refuse has the server refuse messages for a target from now on, or take them again.
func (s *Server) Refuse(target string, refuse bool) {
	defer s.mu.Change()()
	s.refused[fold(target)] = refuse
}

// Said returns the messages of bots so far.
func (s *Server) Said() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// Bots returns the nicks of those that are registered.
func (s *Server) Bots() (nicks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.welcome {
			nicks = append(nicks, c.nick)
		}
	}
	slices.Sort(nicks)
	return nicks
}

// In reports whether a bot is in a channel.
func (s *Server) In(nick, channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channels[fold(channel)][nick]
}

// Await waits until a condition holds that asks Said, Bots or In.
func (s *Server) Await(what string, holds func() bool) {
	s.t.Helper()
	s.mu.Until(s.t, what, holds)
}

// leave forgets a connection.
func (s *Server) leave(c *client) {
	defer s.mu.Change()()
	delete(s.conns, c)
	for channel := range c.joined {
		delete(s.channels[channel], c.nick)
	}
}

// source returns the prefix of a person's or a bot's messages.
func source(nick string) string { return fmt.Sprintf("%s!%s@host.test", nick, strings.ToLower(nick)) }

// fold makes names equal that are equal on IRC (RFC 1459, section 2.2).
func fold(name string) string {
	return strings.NewReplacer("[", "{", "]", "}", `\`, "|", "^", "~").Replace(strings.ToLower(name))
}

const writeTimeout = 10 * time.Second
